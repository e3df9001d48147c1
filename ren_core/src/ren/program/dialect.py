"""Operation classes made from table rows: registration, two verifiers with one contract, construction and inference.

`op.verify()` is xDSL's generic verifier (15 us an operation) and runs at parse and at the end of a pipeline; `quick_verify` checks the
same contract from the row (2 us) and runs on touched operations after each pass. Classes are made at first use of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, IntAttr, LocationAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ren.errors import ProgramVerifyError
from ren.program import _xdsl
from ren.program.literals import LITERAL_ATTRIBUTES, encode, string_array
from ren.program.op_table import OBLIGATIONS, TABLE
from ren.program.rows import ATTRIBUTES, KINDS, Row, RuleError, Value
from ren.program.states import EncryptedState, PlaintextState, disagreement
from ren.program.types import ROLE_TYPES

#: Attribute under which an operation names what still has to be done to its result.
OBLIGATIONS_ATTRIBUTE = "ren.scheduling_obligations"

_MAX_MEMO = 1 << 16
_memo: dict[tuple[Any, ...], tuple[tuple[Attribute, ...], tuple[Attribute, ...]]] = {}


# -- contract --------------------------------------------------------------------------------------------------------


def expected_types(
    row: Row, types: tuple[Attribute, ...], properties: Mapping[str, Attribute]
) -> tuple[Attribute, ...]:
    """Result types by the row's rule, memoised on the identity of the (interned) operand types and on the attributes.

    Raises RuleError.
    """
    key = (row.name, *map(id, types), *properties.items()) if properties else (row.name, *map(id, types))
    hit = _memo.get(key)
    if hit is None:
        assert row.rule is not None
        found = row.rule(types, row.python_attributes(properties))
        if len(_memo) >= _MAX_MEMO:
            _memo.clear()
        hit = _memo[key] = (found, types)  # keeping the types keeps their ids valid
    return hit[0]


def _kind_problem(what: str, value: Value, type_: Attribute) -> str | None:
    allowed = KINDS[value.kind]
    if allowed is None or isinstance(type_, allowed):
        return None
    return f"{what} {value.name} is {type_}, expected {value.kind}"


def _values_problem(what: str, values: tuple[Value, ...], types: Sequence[Attribute]) -> str | None:
    if len(values) == 0 or not values[-1].many:
        if len(types) != len(values):
            return f"{len(types)} {what}s, expected {len(values)}"
    elif len(types) < len(values) - 1:
        return f"{len(types)} {what}s, expected at least {len(values) - 1}"
    for i, type_ in enumerate(types):
        problem = _kind_problem(what, values[min(i, len(values) - 1)], type_)
        if problem is not None:
            return problem
    return None


def _attributes_problem(row: Row, op: Operation) -> str | None:
    properties = op.properties
    found = 0
    for attr in row.attributes:
        attribute = properties.get(attr.name)
        if attribute is None:
            if attr.required:
                return f"attribute {attr.name!r} is missing"
            continue
        found += 1
        problem = attr.problem(attribute)
        if problem is not None:
            return problem
    if len(properties) != found:
        known = {a.name for a in row.attributes}
        return f"unknown attribute {next(n for n in properties if n not in known)!r}"
    for name, attribute in op.attributes.items():
        if "." not in name:
            return f"unknown attribute {name!r} (attributes of your own need a dotted name)"
        if name == OBLIGATIONS_ATTRIBUTE:
            names = (
                [a.data if isinstance(a, StringAttr) else None for a in attribute.data]
                if isinstance(attribute, ArrayAttr)
                else [None]
            )
            if row.stage != "ckks" or any(n not in OBLIGATIONS for n in names):
                return f"{OBLIGATIONS_ATTRIBUTE} is an array of {' and '.join(OBLIGATIONS)} on ren.ckks operations"
    return None


def state_problem(op: Operation) -> tuple[str, str] | None:
    """(code, message) when the operands are not accepted by the state rule or a result disagrees with it; None otherwise, and for operands between
    which a level, a scale or a relinearization is missing, as long as the results claim no state."""
    row = row_of(op)
    if row is None or row.rule is None:
        return None
    try:
        expected = expected_types(row, tuple(v.type for v in _xdsl.operands(op)), op.properties)
    except RuleError as error:
        return None if error.code in _OWED and _claims_nothing(op) else (error.code, str(error))
    results = op.results
    if len(results) != len(expected):
        return "invalid-state", f"{len(results)} results, the rule gives {len(expected)}"
    for result, want in zip(results, expected, strict=True):
        got = result.type
        if got is want:
            continue
        if type(got) is not type(want):
            return "invalid-state", f"result is {got}, the rule gives {want}"
        if isinstance(got.data, (EncryptedState, PlaintextState)):  # type: ignore[attr-defined]
            problem = disagreement(got.data, want.data)  # type: ignore[attr-defined]
            if problem is not None:
                return "invalid-state", f"result's {problem}"
    return None


#: What a missing pass leaves behind: a program may hold it, as it holds operations that are not lowered yet, and readiness names it.
_OWED = frozenset(("unrelinearized-operand", "level-mismatch", "scale-mismatch"))


def _claims_nothing(op: Operation) -> bool:
    """Whether the results say nothing of level, scale and parts."""
    states = [getattr(r.type, "data", None) for r in op.results]
    return all(isinstance(s, EncryptedState) and s.level is None and s.scale is None and s.parts is None for s in states)


def contract_problem(op: Operation) -> str | None:
    """Why the form of an operation (operands, results, attributes) breaks its row, None if it does not; states are not looked at."""
    row = row_of(op)
    if row is None:
        return None
    problem = _values_problem("operand", row.operands, [v.type for v in _xdsl.operands(op)])
    if problem is None:
        problem = _values_problem("result", row.results, [r.type for r in op.results])
    if problem is None and (op.regions or _xdsl.successors(op)):
        problem = "no regions or successors"
    return problem if problem is not None else _attributes_problem(row, op)


def problem_of(op: Operation) -> str | None:
    """Why an operation of a registered row breaks its contract, states included; None if it does not. The quick verifier."""
    problem = contract_problem(op)
    if problem is None:
        state = state_problem(op)
        problem = None if state is None else state[1]
    return problem


def quick_verify(op: Operation) -> None:
    """Raise ProgramVerifyError when an operation breaks the contract of its row. Operations without a row are not looked at."""
    problem = problem_of(op)
    if problem is not None:
        raise ProgramVerifyError(f"{op.name}: {problem}{at(op)}", subject=op.name)


# -- classes ---------------------------------------------------------------------------------------------------------


def _constraint(kind: str) -> AttrConstraint:
    classes = KINDS[kind]
    if classes is None:
        return AnyAttr()
    constraint: AttrConstraint = BaseAttr(classes[0])
    for cls in classes[1:]:
        constraint = constraint | BaseAttr(cls)
    return constraint


def _verify(self: Operation) -> None:
    problem = problem_of(self)
    if problem is not None:
        raise VerifyException(f"{self.name}: {problem}")


def define_operation(row: Row) -> type[Operation]:
    """The xDSL operation class of a row."""
    members: dict[str, Any] = {"name": row.name, "__doc__": row.summary, "__module__": __name__, "verify_": _verify}
    for value in row.operands:
        members[f"operand_{value.name}"] = (var_operand_def if value.many else operand_def)(_constraint(value.kind))
    for value in row.results:
        members[f"result_{value.name}"] = (var_result_def if value.many else result_def)(_constraint(value.kind))
    for attr in row.attributes:
        wanted = ATTRIBUTES[attr.kind]
        constraint = AnyAttr() if wanted is None else BaseAttr(wanted)
        member = "attr_" + "".join(c if c.isalnum() else "_" for c in attr.name)
        members[member] = (prop_def if attr.required else opt_prop_def)(constraint, prop_name=attr.name)
    members["traits"] = traits_def(Pure()) if row.pure else traits_def()
    title = "".join(word.title() for part in row.name.split(".")[1:] for word in part.split("_"))
    cls: type[IRDLOperation] = irdl_op_definition(type(title + "Op", (IRDLOperation,), members))
    # Only after the decorator: irdl refuses class members that are neither functions nor definitions.
    cls.row = row  # type: ignore[attr-defined]
    return cls


class RenDialect(Dialect):
    """An xDSL dialect made from rows."""

    def __init__(self, name: str, rows: Iterable[Row], attributes: Iterable[type[Attribute]] = ()) -> None:
        self.rows = tuple(rows)
        foreign = next((r.name for r in self.rows if not r.name.startswith(name + ".")), None)
        if foreign is not None:
            raise ProgramVerifyError(
                f"dialect {name!r} cannot define {foreign!r}: its operations are called {name}.something",
                subject=foreign,
            )
        super().__init__(name, [define_operation(r) for r in self.rows], list(attributes))


REN = RenDialect("ren", (r for r in TABLE if r.name.startswith("ren.")), (*ROLE_TYPES, *LITERAL_ATTRIBUTES))
TORCH = RenDialect("torch", (r for r in TABLE if r.name.startswith("torch.")))

_OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for d in (REN, TORCH) for cls in d.operations}


def add_dialect(dialect: RenDialect) -> None:
    """Make the operations of a third-party dialect known to `build`. Called by the dialect loader, once per dialect."""
    for cls in dialect.operations:
        owner = _OPERATIONS.get(cls.name)
        if owner is not None and owner is not cls and getattr(owner, "row", None) != getattr(cls, "row", None):
            raise ProgramVerifyError(f"operation {cls.name!r} is defined already", subject=cls.name)
        _OPERATIONS.setdefault(cls.name, cls)


def row_of(op: Operation) -> Row | None:
    """The row of an operation, None for operations of other dialects."""
    return getattr(type(op), "row", None)


def row_named(name: str) -> Row | None:
    cls = _OPERATIONS.get(name)
    return None if cls is None else getattr(cls, "row", None)


def is_pure(op: Operation) -> bool:
    """Known to have no effect. An operation that nobody registered is an effect."""
    row = row_of(op)
    return row is not None and row.pure


def is_dead(op: Operation) -> bool:
    """Pure, with results, none of them used."""
    return bool(op.results) and is_pure(op) and all(r.first_use is None for r in op.results)


# -- construction ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def location(file: str, line: int, column: int = 0) -> LocationAttr:
    """A source location. Cached: a traced program names few lines many times."""
    file = file.encode("utf-8", "replace").decode()
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


UNKNOWN_LOCATION: LocationAttr = UnknownLoc()


def source_of(op: Operation) -> tuple[str, int] | None:
    """(file, line) of an operation, None when it is not known."""
    loc = op.location
    return (loc.filename.data, loc.line.data) if isinstance(loc, FileLineColLoc) else None


def at(op: Operation) -> str:
    """ " at file:line", or nothing."""
    source = source_of(op)
    return "" if source is None else f" at {source[0]}:{source[1]}"


def result_types(
    name: str, operand_types: Sequence[Attribute], attributes: Mapping[str, Any] | None = None
) -> tuple[Attribute, ...]:
    """What the state rule of operation `name` gives. Raises RuleError when it refuses the operands."""
    row = _row_for(name)
    if row.rule is None:
        raise ProgramVerifyError(f"{name}: result types are not implied, give result_types=", subject=name)
    return expected_types(row, tuple(operand_types), _properties(row, attributes or {}))


def build(
    name: str,
    operands: Sequence[SSAValue] = (),
    attributes: Mapping[str, Any] | None = None,
    *,
    loc: LocationAttr | None = None,
    result_types: Sequence[Attribute] | None = None,
    extra: Mapping[str, Any] | None = None,
    hint: str | None = None,
    verify: bool = False,
) -> Operation:
    """Make an operation (not inserted anywhere yet).

    name: a name of the table, or of a loaded dialect. attributes: Python values or xDSL attributes, by the names of the row. extra:
    discardable attributes with dotted names. result_types: by default what the state rule gives. loc: see `location`. hint: name of the
    result in text. verify: run the quick verifier at once.

    Raises RuleError (a ValueError with a readiness code) when the rule refuses the operands, ProgramVerifyError for unknown names and attributes.
    """
    row = _row_for(name)
    properties = _properties(row, attributes or {})
    if result_types is None:
        if row.rule is None:
            raise ProgramVerifyError(f"{name}: result types are not implied, give result_types=", subject=name)
        result_types = expected_types(row, tuple(v.type for v in operands), properties)
    op = _OPERATIONS[name].create(
        operands=tuple(operands),
        result_types=tuple(result_types),
        properties=properties,
        attributes=encode_attributes(extra) if extra else {},
        location=loc,
    )
    if hint is not None:
        for result in op.results:
            result.name_hint = hint if SSAValue.is_valid_name(hint) else None
    if verify:
        quick_verify(op)
    return op


def encode_attributes(values: Mapping[str, Any]) -> dict[str, Attribute]:
    """Discardable attributes from Python values. Raises ProgramVerifyError for a name without a dot."""
    bad = next((n for n in values if "." not in n), None)
    if bad is not None:
        raise ProgramVerifyError(f"attribute {bad!r} needs a dotted name", subject=bad)
    return {k: encode(v) for k, v in values.items()}


def _row_for(name: str) -> Row:
    cls = _OPERATIONS.get(name)
    if cls is None:
        raise ProgramVerifyError(
            f"no operation is called {name!r}", subject=name, hint="docs/reference/program-operations.md lists them"
        )
    return cast(Row, cls.row)  # type: ignore[attr-defined]


def _properties(row: Row, attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    properties: dict[str, Attribute] = {}
    for name, value in attributes.items():
        attr = row.attr(name)
        if attr is None:
            raise ProgramVerifyError(f"{row.name} has no attribute {name!r}", subject=row.name)
        properties[name] = attr.make(value)
    return properties


def obligations_of(op: Operation) -> tuple[str, ...]:
    """What still has to be done to the result, in order."""
    found = op.attributes.get(OBLIGATIONS_ATTRIBUTE)
    return tuple(a.data for a in found.data) if isinstance(found, ArrayAttr) else ()


def obligations_attribute(names: Sequence[str]) -> Attribute:
    return string_array(names)


# -- inference -------------------------------------------------------------------------------------------------------


def infer(op: Operation, report: Callable[[Operation, RuleError], None] | None = None) -> bool:
    """Set the result types of an operation to what its rule gives for its present operand types; whether one changed.

    What the rule leaves unknown is unknown afterwards. When it refuses the operands, `report` is called and the results keep their types
    (RuleError passes through without `report`).
    """
    row = row_of(op)
    if row is None or row.rule is None:
        return False
    try:
        expected = expected_types(row, tuple(v.type for v in _xdsl.operands(op)), op.properties)
    except RuleError as error:
        if report is None:
            raise
        report(op, error)
        return False
    changed = False
    for result, want in zip(op.results, expected, strict=True):
        if result.type is not want and result.type != want:
            set_type(result, want)
            changed = True
    return changed


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Change the type of a value in place; its uses see the new one."""
    _xdsl.set_value_type(value, type_)
