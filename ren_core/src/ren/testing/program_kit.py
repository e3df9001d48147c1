"""Short ways to write, provision and check Programs in the tests of frontends, passes and dialects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import LocationAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from ren.program import InputSpec, Program, Workspace, analyze_evaluation_key_requirements, build
from ren.program.arguments import argument_type
from ren.program.entry import DIALECT_ATTRIBUTE, DIALECT_VERSION, SCHEMA_ATTRIBUTE, SCHEMA_VERSION
from ren.program.types import role_of

#: Attributes of a module that says which versions it was written for.
VERSIONS = f'attributes {{{SCHEMA_ATTRIBUTE} = "{SCHEMA_VERSION}", {DIALECT_ATTRIBUTE} = "{DIALECT_VERSION}"}}'


def module_text(functions: str, attributes: str = VERSIONS) -> str:
    """Text of a module around the text of functions."""
    return f"builtin.module {attributes} {{\n{functions}\n}}\n"


def function_text(arguments: str, body: str, returned: str = "", *, name: str = "main") -> str:
    """Text of one function. returned: "%value : type", several separated by ";"."""
    pairs = [r.split(":", 1) for r in returned.split(";") if r.strip()]
    types = ", ".join(t.strip() for _, t in pairs)
    names = ", ".join(n.strip() for n, _ in pairs)
    arrow = f" -> ({types})" if pairs else ""
    last = f"func.return {names} : {types}" if pairs else "func.return"
    return f"  func.func @{name}({arguments}){arrow} {{\n{body}\n    {last}\n  }}"


def main_text(arguments: str, body: str, returned: str = "", attributes: str = VERSIONS) -> str:
    """Text of a module with one function `main`."""
    return module_text(function_text(arguments, body, returned), attributes)


class ProgramBuilder:
    """A program from calls: `b = ProgramBuilder(x=encrypted())`, `y = b("ren.semantic.square", b["x"])`, `b.program(y)`."""

    def __init__(self, **inputs: InputSpec | Attribute) -> None:
        types = [argument_type(i) if isinstance(i, InputSpec) else i for i in inputs.values()]
        self.block = Block(arg_types=types)
        self._arguments = dict(zip(inputs, self.block.args, strict=True))
        for name, argument in self._arguments.items():
            argument.name_hint = name

    def __getitem__(self, name: str) -> SSAValue:
        """The argument called `name`."""
        return self._arguments[name]

    def __call__(
        self,
        name: str,
        *operands: SSAValue,
        types: Sequence[Attribute] | None = None,
        loc: LocationAttr | None = None,
        extra: dict[str, Any] | None = None,
        **attributes: Any,
    ) -> Any:
        """Append an operation; its result, or a tuple of several. Attribute names with dots go through `extra`."""
        op = build(name, operands, attributes, result_types=types, loc=loc, extra=extra)
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else tuple(op.results)

    def constant(self, value: Any) -> SSAValue:
        return self("ren.constant", value=value)  # type: ignore[no-any-return]

    def prepare(self, use: str, public: SSAValue, ciphertext: SSAValue) -> SSAValue:
        """The prepare operation that belongs to the role of `public`. use: "add" or "multiply"."""
        role = role_of(public.type)
        if use == "add":
            mode = "ciphertext_scale"
        else:
            mode = "runtime_plaintext_scale" if role == "plaintext" else "default_scale"
        return self(  # type: ignore[no-any-return]
            f"ren.ckks.prepare.{use}.{role}", public, ciphertext, operation=use, source_role=role, scale_mode=mode
        )

    def product(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x * y of ciphertexts at equal level: transforms, product, relinearization, rescale."""
        x, y = self("ren.ckks.to_ntt", x), self("ren.ckks.to_ntt", y)
        return self("ren.ckks.rescale", self("ren.ckks.relinearize", self("ren.ckks.multiply", x, y)))  # type: ignore[no-any-return]

    def times(self, x: SSAValue, public: SSAValue) -> SSAValue:
        """x * public: transform, preparation, product, rescale."""
        x = self("ren.ckks.to_ntt", x)
        return self("ren.ckks.rescale", self("ren.ckks.multiply_plaintext", x, self.prepare("multiply", public, x)))  # type: ignore[no-any-return]

    def plus(self, x: SSAValue, public: SSAValue) -> SSAValue:
        """x + public."""
        return self("ren.ckks.add_plaintext", x, self.prepare("add", public, x))  # type: ignore[no-any-return]

    def program(self, *results: SSAValue, attributes: dict[str, Any] | None = None) -> Program:
        """The program that returns `results`. The builder is used up."""
        self.block.add_op(ReturnOp(*results))
        return Program.from_function(self.block, attributes=attributes)


def workspace_for(program: Program, engine: Any, **more: Any) -> Workspace:
    """A workspace with the engine, its public key and exactly the evaluation keys that the program needs."""
    from ren.schemes.ckks import EvaluationKeySet

    needed = analyze_evaluation_key_requirements(program, engine=engine)
    keys = EvaluationKeySet(
        rotations=engine.rotation_keys(needed.rotation_steps) if needed.rotation_steps else None,
        relinearization=engine.relinearization_key if needed.requires_relinearization else None,
        conjugation=engine.conjugation_key if needed.requires_conjugation else None,
    )
    return Workspace(engine=engine, evaluation_keys=keys, public_key=engine.public_key, **more)


def decoded(engine: Any, value: Any, length: int | None = None) -> NDArray[Any]:
    """The slots of an encrypted value, by the owner of the key."""
    return engine.decode(engine.decrypt(value), length)  # type: ignore[no-any-return]


def result_parts(value: Any) -> list[Any]:
    """Everything that a caller can tell of a result, as values that compare: types, states, residues, elements."""
    if isinstance(value, (tuple, list)):
        return [type(value), *(p for v in value for p in result_parts(v))]
    if isinstance(value, dict):
        return [dict, *(p for k, v in value.items() for p in (k, *result_parts(v)))]
    items = getattr(value, "items", None)
    if isinstance(items, tuple):
        return [type(value), value.shape, *(p for v in items for p in result_parts(v))]
    polys = [p for name in ("a", "b", "c", "poly") if (p := getattr(value, name, None)) is not None]
    if polys and hasattr(value, "level"):
        state = [getattr(value, name, None) for name in ("level", "scale", "slots", "key_id", "bound", "is_real")]
        return [type(value), *state, *(p for poly in polys for p in (poly.domain, poly.residues().tolist()))]
    if hasattr(value, "tolist"):
        return [type(value), value.dtype, tuple(value.shape), repr(value.tolist())]
    return [type(value), value]


def run_both_ways(program: Program, *args: Any, workspace: Any, entry: str = "main", **kwargs: Any) -> Any:
    """The result of a run, after it was seen that interpreting, capturing and replaying the program give the same to the bit.

    Arrays are encrypted with the same randomness each time. For programs whose handlers give the same at each run.
    """
    from ren.program.interpret import interpret
    from ren.testing.randomness import fixed_randomness

    def once(run: Any) -> Any:
        with fixed_randomness(1):
            return run(program, *args, workspace=workspace, entry=entry, **kwargs)

    wanted = result_parts(once(interpret))
    for _ in range(2):
        result = once(Program.run)
        if result_parts(result) != wanted:
            raise AssertionError("the program gives another result when it is replayed")
    return result
