"""Names and structure of an entry function: what its arguments and results are called, and how the caller sees them.

A traced function stores these as attributes of its `func.func`; for hand-written text attributes of the module serve too, and without
any, arguments are called by their names in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation

from ren.errors import EntryError
from ren.program.literals import LiteralError, OperandRef, decode

SCHEMA_VERSION = "1"
DIALECT_VERSION = "0.1"

#: Attributes of the module.
SCHEMA_ATTRIBUTE = "ren.schema_version"
DIALECT_ATTRIBUTE = "ren.dialect_version"
FRONTEND_ATTRIBUTE = "ren.frontend"
PROGRAM_NAME_ATTRIBUTE = "ren.program_name"
#: Attributes of an entry function.
INPUT_NAMES = "ren.input_names"  # array of strings: the parameters of the caller's signature, in order
INPUT_STRUCTURE = "ren.input_structure"  # dictionary: parameter -> structure of #ren.operand<argument number>; absent: one argument each
INPUT_DEFAULTS = "ren.input_defaults"  # dictionary: parameter -> literal used when it is not given
KEYWORD_ONLY = "ren.keyword_only"  # array of strings
STATIC_VALUES = "ren.static_values"  # dictionary: name -> literal; documentation of what was fixed while tracing
OUTPUT_STRUCTURE = (
    "ren.output_structure"  # structure of #ren.operand<result number> and literals; absent: value, or tuple of values
)

VERSION_ATTRIBUTES: dict[str, Attribute] = {
    SCHEMA_ATTRIBUTE: StringAttr(SCHEMA_VERSION),
    DIALECT_ATTRIBUTE: StringAttr(DIALECT_VERSION),
}


@dataclass(frozen=True)
class Signature:
    """How a caller sees an entry. inputs: parameter names in order. structures: parameter -> structure of OperandRef(argument number).
    defaults: parameter -> value. keyword_only: parameters that are not positional. output: structure of OperandRef(result number), or None
    for the plain rule (no result: None, one: itself, several: a tuple)."""

    inputs: tuple[str, ...]
    structures: dict[str, Any]
    defaults: dict[str, Any]
    keyword_only: frozenset[str]
    output: Any
    has_output_structure: bool


def functions(module: ModuleOp) -> tuple[FuncOp, ...]:
    return tuple(op for op in module.body.block.ops if isinstance(op, FuncOp))


def entry_function(module: ModuleOp, name: str) -> FuncOp:
    """The function called `name`. Raises EntryError (a LookupError) unless there is exactly one."""
    found = [f for f in functions(module) if f.sym_name.data == name]
    if len(found) != 1:
        known = ", ".join(f.sym_name.data for f in functions(module)) or "none"
        raise EntryError(
            f"{'no' if not found else len(found)} functions are called {name!r}; the program has: {known}", subject=name
        )
    return found[0]


def entry_block(module: ModuleOp, name: str) -> Block:
    """Its only block. Raises EntryError when there are several, or none (a declaration)."""
    function = entry_function(module, name)
    blocks = list(function.body.blocks)
    if len(blocks) != 1:
        raise EntryError(f"function {name!r} has {len(blocks)} blocks, one is needed", subject=name)
    return blocks[0]


def return_of(block: Block) -> ReturnOp | None:
    """The return at the end of a block, if it is the only one in it."""
    last = block.last_op
    return last if isinstance(last, ReturnOp) else None


def _attribute(function: FuncOp, name: str) -> Attribute | None:
    found = function.attributes.get(name)
    if found is None:
        module = function.parent_op()
        found = module.attributes.get(name) if isinstance(module, Operation) else None
    return found


def _strings(attribute: Attribute | None, what: str) -> tuple[str, ...] | None:
    if attribute is None:
        return None
    if not isinstance(attribute, ArrayAttr) or not all(isinstance(a, StringAttr) for a in attribute.data):
        raise EntryError(f"{what} must be an array of strings", subject=what)
    return tuple(a.data for a in attribute.data)


def _literals(attribute: Attribute | None, what: str) -> dict[str, Any]:
    if attribute is None:
        return {}
    if not isinstance(attribute, DictionaryAttr):
        raise EntryError(f"{what} must be a dictionary", subject=what)
    try:
        return {k: decode(v) for k, v in attribute.data.items()}
    except LiteralError as error:
        raise EntryError(f"{what}: {error}", subject=what) from None


def signature(function: FuncOp) -> Signature:
    """How a caller sees the function. Raises EntryError when its attributes contradict its arguments."""
    block = function.body.blocks.first
    arguments = () if block is None else tuple(block.args)
    names = _strings(_attribute(function, INPUT_NAMES), INPUT_NAMES)
    structures = _literals(_attribute(function, INPUT_STRUCTURE), INPUT_STRUCTURE)
    if names is None:
        names = _names_in_text(arguments)
    if len(set(names)) != len(names):
        raise EntryError(f"{INPUT_NAMES} names a parameter twice", subject=INPUT_NAMES)
    if not structures:
        if len(names) != len(arguments):
            raise EntryError(
                f"{INPUT_NAMES} names {len(names)} parameters, the function has {len(arguments)}", subject=INPUT_NAMES
            )
        structures = {n: OperandRef(i) for i, n in enumerate(names)}
    used = sorted(i for s in structures.values() for i in refs(s))
    if set(structures) != set(names) or used != list(range(len(arguments))):
        raise EntryError(
            f"{INPUT_STRUCTURE} must give every parameter, and use every argument once", subject=INPUT_STRUCTURE
        )
    defaults = _literals(_attribute(function, INPUT_DEFAULTS), INPUT_DEFAULTS)
    keyword_only = frozenset(_strings(_attribute(function, KEYWORD_ONLY), KEYWORD_ONLY) or ())
    if not (set(defaults) | keyword_only) <= set(names):
        raise EntryError(f"{INPUT_DEFAULTS} or {KEYWORD_ONLY} names an unknown parameter", subject=INPUT_DEFAULTS)
    output = _attribute(function, OUTPUT_STRUCTURE)
    results = len(function.function_type.outputs.data)
    try:
        structure = None if output is None else decode(output)
    except LiteralError as error:
        raise EntryError(f"{OUTPUT_STRUCTURE}: {error}", subject=OUTPUT_STRUCTURE) from None
    if output is not None and any(i >= results for i in refs(structure)):
        raise EntryError(f"{OUTPUT_STRUCTURE} names a result beyond {results}", subject=OUTPUT_STRUCTURE)
    return Signature(names, structures, defaults, keyword_only, structure, output is not None)


def _names_in_text(arguments: tuple[Any, ...]) -> tuple[str, ...]:
    hints = [a.name_hint for a in arguments]
    usable = all(hints) and len(set(hints)) == len(hints)
    return tuple(hints) if usable else tuple(f"arg{i}" for i in range(len(arguments)))


def refs(structure: Any) -> list[int]:
    """Operand numbers in a structure, in order of appearance."""
    if isinstance(structure, OperandRef):
        return [structure.index]
    if isinstance(structure, (tuple, list)):
        return [i for s in structure for i in refs(s)]
    if isinstance(structure, dict):
        return [i for s in structure.values() for i in refs(s)]
    return []


def result_leaves(signature: Signature, values: Any, count: int) -> list[Any]:
    """Results in the structure that the caller knows as one per result of the program, in their order."""
    if not signature.has_output_structure:
        return list(values) if count != 1 and isinstance(values, (tuple, list)) else [values]
    found: dict[int, Any] = {}

    def visit(structure: Any, value: Any) -> None:
        if isinstance(structure, OperandRef):
            found[structure.index] = value
        elif isinstance(structure, dict):
            for key, part in structure.items():
                visit(part, value[key])
        elif isinstance(structure, (tuple, list)):
            for part, item in zip(structure, value, strict=True):
                visit(part, item)

    visit(signature.output, values)
    return [found[i] for i in range(count)]


def rebuild(structure: Any, values: Any) -> Any:
    """The structure with every OperandRef replaced by the value of that number; a new object each time."""
    if isinstance(structure, OperandRef):
        return values[structure.index]
    if isinstance(structure, tuple):
        return tuple(rebuild(s, values) for s in structure)
    if isinstance(structure, list):
        return [rebuild(s, values) for s in structure]
    if isinstance(structure, dict):
        return {k: rebuild(s, values) for k, s in structure.items()}
    return structure
