"""Writes the reference pages that are made from tables in the code.

`python docs/generate.py` rewrites them; tests/docs/test_generated_pages.py fails where a page differs from its table.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Made by docs/generate.py from {source}; edit that instead. -->\n\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _prose(text: str | None) -> str:
    """A docstring on one line, with `|` safe inside a table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def errors() -> str:
    from ren import errors as module

    classes = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    raised = [c for c in classes if issubclass(c, module.RenError)]
    warned = [c for c in classes if issubclass(c, Warning)]

    def builtin(cls: type) -> str:
        bases = [
            b
            for b in cls.__mro__[1:]
            if b.__module__ == builtins.__name__ and b not in (Exception, BaseException, object)
        ]
        return ", ".join(f"`{b.__name__}`" for b in bases)

    rows = (
        (
            f"`{c.code}`",
            f"`{c.__name__}`",
            builtin(c),
            f"`{c.__bases__[0].__name__}`" if c is not module.RenError else "",
            _prose(c.__doc__),
        )
        for c in sorted(raised, key=lambda c: (c.code, c.__name__))
    )
    return (
        NOTE.format(source="ren/errors.py")
        + "# Errors\n\nEverything Ren raises on purpose derives from `ren.errors.RenError` and from the builtin a Python user would catch. Each "
        "has a `code` that is stable across releases, the `subject` it is about and, where there is a way out, a `hint`.\n\n"
        + _table(("code", "class", "also a", "kind of", "meaning"), rows)
        + "\n## Warnings\n\n"
        + _table(("class", "meaning"), ((f"`{c.__name__}`", _prose(c.__doc__)) for c in warned))
    )


def configuration() -> str:
    from ren.config import VARIABLES, Form

    forms = {
        Form.FLAG: "`1`, `true`, `yes`, `on`, or `0`, `false`, `no`, `off`",
        Form.TEXT: "text",
        Form.NAMES: "names, separated by commas",
        Form.PAIRS: "name:value pairs, separated by commas",
        Form.INTEGER: "an integer",
    }
    return (
        NOTE.format(source="ren/config.py")
        + "# Configuration\n\nEnvironment variables are read when they are needed, not at import. Text of the wrong form raises "
        "`ConfigurationError`. `ren check` lists REN_* variables that Ren does not know.\n\n"
        + _table(
            ("variable", "form", "example", "meaning"),
            ((f"`{v.name}`", forms[v.form], f"`{v.example}`", _prose(v.meaning)) for v in VARIABLES.values()),
        )
    )


def plugins() -> str:
    from ren.plugin import hookspecs, ordering
    from ren.plugin.info import API_VERSION, GROUP, PluginInfo
    from ren.plugin.registry import Registrar
    from ren.plugin.report import State

    meanings = {
        State.LOADED: "its names can be used",
        State.DISABLED: "switched off by `REN_PLUGINS`, `REN_DISABLE_PLUGINS` or `REN_PREFER`; never imported in the first two cases",
        State.MISSING_DEPENDENCY: "a module in `requires` is not installed; a warning only if the plugin names no `extra`",
        State.INCOMPATIBLE: "written for another hook API: its version, a hook name or a hook argument is unknown here",
        State.BROKEN: "importing or registering it raised, or its `PLUGIN` or its arguments are malformed",
        State.CONFLICT: "it claims a name that another plugin, or Ren itself, claims too",
    }
    methods = [(name, f) for name, f in vars(Registrar).items() if name.startswith("add_")]
    hooks = "".join(
        f"### `{name}({', '.join(inspect.signature(getattr(hookspecs, name)).parameters)})`\n\n{inspect.getdoc(getattr(hookspecs, name))}\n\n"
        for name in (*hookspecs.REGISTRATION_HOOKS, *hookspecs.OBSERVER_HOOKS)
    )
    registrar = "".join(f"### `registry.{name}{_signature(f)}`\n\n{inspect.getdoc(f)}\n\n" for name, f in methods)
    stages = _stages(inspect.getsource(ordering.Stage))
    return (
        NOTE.format(source="ren/plugin")
        + f"# Plugins\n\nA plugin is a module that an installed distribution names in the entry-point group `{GROUP}`. The hook API is version "
        f"{API_VERSION[0]}.{API_VERSION[1]}. To write one, start with [how to write a backend plugin](../how-to/write-a-backend-plugin.md).\n\n"
        f"## `PluginInfo`\n\n{inspect.getdoc(PluginInfo)}\n\n"
        f"## Hooks\n\n{inspect.getdoc(hookspecs)}\n\n{hooks}"
        f"## What registration hooks get\n\n{inspect.getdoc(Registrar)}\n\n{registrar}"
        "## Stages of a pipeline\n\nPasses run by stage, in this order; inside a stage by `after` and `before`, then by name.\n\n"
        + _table(("stage", "what its passes do"), stages)
        + "\n## States\n\n`ren.plugins()` and `ren plugins [--json]` list every installed plugin with one of these. Only `loaded` plugins "
        "contribute names: any other is rolled back whole.\n\n"
        + _table(("state", "meaning"), ((f"`{s}`", meanings[s]) for s in State))
        + "\n## Clashes\n\nA name of one kind has one owner. `REN_PREFER=name:distribution` chooses it. Without that, Ren's own names stand, and two third "
        "parties that claim one name are both refused, each report naming both. Install order never matters; the same object registered twice is no clash.\n"
    )


def _signature(function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    text = str(signature.replace(parameters=list(signature.parameters.values())[1:]))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).removesuffix(" -> None")


def _stages(source: str) -> list[tuple[str, str]]:
    rows = [line.partition("#") for line in source.splitlines() if '= "' in line]
    return [(f"`{left.partition('=')[2].strip().strip(chr(34))}`", comment.strip()) for left, _, comment in rows]


def operations() -> str:
    from ren.ops import ELEMENTWISE_OPCODES, KERNELS, OPS

    ops = (
        (
            f"`{o.op}`",
            o.args,
            _prose(o.params),
            _prose(o.domain),
            "yes" if o.elementwise else "",
            "yes" if o.linear else "",
            _prose(o.meaning),
        )
        for o in OPS.values()
    )
    kernels = (
        (f"`{k.name}`", _prose(k.inputs), _prose(k.outputs), _prose(k.params), _prose(k.meaning))
        for k in KERNELS.values()
    )
    return (
        NOTE.format(source="ren/ops.py")
        + "# Operations and kernels\n\nNodes of the lazy graph, and the kernels they are scheduled into. Every kernel is defined to the last bit, so all backends agree.\n\n"
        "## Operations of the graph\n\n"
        + _table(("operation", "operands", "parameters", "domain", "element-wise", "linear", "meaning"), ops)
        + "\n## Kernels\n\n"
        + _table(("kernel", "inputs", "outputs", "parameters", "meaning"), kernels)
        + f"\nInstructions of an `elementwise` program: {', '.join(f'`{o}`' for o in ELEMENTWISE_OPCODES)}.\n"
    )


def program_operations() -> str:
    from ren.program.op_table import OBLIGATIONS, TABLE
    from ren.program.rows import Row, Value, no_keys

    def values(row_values: tuple[Value, ...]) -> str:
        return ", ".join(f"{v.name}{'...' if v.many else ''}: {v.kind}" for v in row_values)

    def attributes(row: Row) -> str:
        parts = []
        for a in row.attributes:
            detail = "/".join(a.choices) or a.meaning
            parts.append(f"`{a.name}`{'' if a.required else '?'} {a.kind}" + (f" ({_prose(detail)})" if detail else ""))
        return "; ".join(parts)

    def row_cells(row: Row) -> tuple[str, ...]:
        facts = [name for name, true in (("pure", row.pure), ("keys", row.needs is not no_keys)) if true]
        facts += [f"may leave {', '.join(row.obligations)}"] if row.obligations else []
        executed = "" if row.handler is None else "yes"
        return (
            f"`{row.name}`",
            values(row.operands),
            values(row.results),
            attributes(row),
            ", ".join(facts),
            executed,
            row.cost if row.handler is not None or row.stage == "ckks" else "",
            _prose(row.summary),
        )

    titles = {
        "reference": "References and public work",
        "call": "Kept calls",
        "semantic": "Semantic operations: what a program means",
        "logical": "Logical operations: which operands are encrypted",
        "ckks": "CKKS operations: what runs",
    }
    head = ("operation", "operands", "results", "attributes", "facts", "executed", "cost", "meaning")
    page = (
        NOTE.format(source="ren/program/op_table.py")
        + "# Operations of Programs\n\nOne row per operation of the `ren` dialect. Operand kinds: `encrypted`, `plaintext`, `message`; `public` is a message or "
        "plaintext, `value` any of the three, `any` every type. `...` marks any number, `?` an optional attribute. An operation that is not executed has to be lowered, "
        "or needs a handler in the workspace. Results still owed are listed in the attribute `ren.scheduling_obligations` "
        f"({', '.join(OBLIGATIONS)}).\n"
    )
    for stage, title in titles.items():
        page += f"\n## {title}\n\n" + _table(head, (row_cells(r) for r in TABLE if r.stage == stage))
    return page


def diagnostics() -> str:
    from ren.program.diagnostics import CODES

    return (
        NOTE.format(source="ren/program/diagnostics.py")
        + "# Diagnostics\n\nWhat `program.readiness(workspace)` reports, everything at once. Each finding has a code, a message, a subject, and where it is known the "
        "file and line that the user wrote. A program with an error does not run; a warning does not stop it.\n\n"
        + _table(("code", "severity", "meaning"), ((f"`{c}`", s, _prose(m)) for c, (s, m) in CODES.items()))
    )


def torch_targets() -> str:
    from ren_frontend_torch import targets

    def spelled(spelling: str) -> str:
        return f"`x{spelling}`" if spelling.startswith(".") else f"`{spelling}`"

    spaces = "".join(
        f"\n### {space}\n\n{', '.join(f'`{n}`' for n in sorted(set(names)))}\n"
        for space, names in targets.FUNCTIONS.items()
    )
    return (
        NOTE.format(source="ren_frontend_torch/targets.py")
        + "# PyTorch calls that are understood\n\n## On encrypted values\n\nIn these spellings, and as operators; in-place forms (`x.add_(y)`, `x += y`, `out=x`) where nothing "
        "else shares the memory. Any other call is kept in the program and listed in `CaptureResult.diagnostics` with file and line; it runs only with a handler in "
        '`workspace["torch_handlers"]`.\n\n'
        + _table(
            ("calls", "meaning"), ((", ".join(map(spelled, r.spellings)), _prose(r.summary)) for r in targets.SPELLINGS)
        )
        + "\n## On public data\n\nKept in the program and executed by name from this table when it runs. They return new values and touch nothing else: no changes in place, no "
        "files, no random numbers.\n"
        + spaces
        + f"\n### Methods of tensors\n\n{', '.join(f'`{n}`' for n in sorted(set(targets.METHODS)))}\n"
        + f"\n### Properties of tensors\n\n{', '.join(f'`{n}`' for n in targets.PROPERTIES)}\n"
        + f"\n## Refused while tracing\n\nRandom numbers: {', '.join(f'`{n}`' for n in sorted(targets.RANDOM))}. "
        f"In eval mode these are fine: {', '.join(f'`{n}`' for n in sorted(targets.ONLY_IN_TRAINING))}.\n"
    )


def passes() -> str:
    """Every pass of `ren_passes` in running order, with the documentation of its class."""
    from ren.plugin.ordering import PassPlace, Stage, order_passes
    from ren.plugin.registry import resolve
    from ren_passes.default_pipeline import PLACES

    by_name = {p.name: p for p in PLACES}
    order = order_passes([PassPlace(p.name, Stage(p.stage), p.after, p.before) for p in PLACES])
    default = [n for n in order if by_name[n].default]
    text = (
        NOTE.format(source="ren_passes/default_pipeline.py")
        + "# Passes\n\n`jit.default_pipeline()` runs these, in this order; passes of other plugins take their places among them:\n\n"
        + "\n".join(f"{i}. [`{n}`](#{n})" for i, n in enumerate(default, 1))
        + "\n\nThe others join with `jit.default_pipeline(enable=[...])`, or by name of their class, such as `jit.SvgGraphVisualizationPass(path)`.\n"
    )
    for name in order:
        place = by_name[name]
        documentation = inspect.cleandoc(resolve(f"ren_passes.{place.target}").__doc__ or "")
        use = "default" if place.default else "on request"
        text += f"\n## {name}\n\nStage {place.stage}, {use}: {place.summary}.\n\n{documentation}\n"
    return text


PAGES: dict[str, Callable[[], str]] = {
    "program-operations.md": program_operations,
    "diagnostics.md": diagnostics,
    "errors.md": errors,
    "configuration.md": configuration,
    "plugins.md": plugins,
    "operations.md": operations,
    "torch-targets.md": torch_targets,
    "passes.md": passes,
}


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make())


if __name__ == "__main__":
    main()
