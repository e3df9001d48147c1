"""Python literals as IR attributes and back: constants, call arguments and input/output structures.

| Python | attribute |
| --- | --- |
| None, bool, int, float, str | `unit`, `true`, `3 : i64` (wider when needed), `5.0e-01 : f64`, `"text"` |
| complex | `#ren.complex<re, im>` |
| tuple, list, dict with str keys | `#ren.tuple<[...]>`, `[...]`, `{...}` |
| slice, Ellipsis | `#ren.slice<start, stop, step>`, `#ren.ellipsis` |
| `Named("torch.dtype", "float64")` | `#ren.named<"torch.dtype", "float64">`: a symbol that only the frontend that wrote it resolves, from a table |
| `OperandRef(2)` | `#ren.operand<2>`: operand, argument or result number 2 |

Nothing is evaluated or imported on the way back; floats keep their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import BaseAttr, irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ren.errors import ProgramVerifyError
from ren.program._xdsl import at_body, lexer_jump
from ren.program.layout import Layout, LayoutError
from ren.program.scales import SymbolicScale
from ren.program.states import _split

#: Nesting of containers in a literal; the parser has the same limit on brackets.
MAX_DEPTH = 24
MAX_INTEGER_BITS = 8192


@dataclass(frozen=True, slots=True)
class OperandRef:
    """Stands for operand, argument or result number `index` inside a structure."""

    index: int


@dataclass(frozen=True, slots=True)
class Named:
    """A symbol such as ("torch.dtype", "float64")."""

    kind: str
    name: str


class LiteralError(ProgramVerifyError, TypeError):
    """A Python value that has no literal form, or an attribute that is no literal."""

    code = "invalid-literal"


@irdl_attr_definition
class OperandAttr(Data[int]):
    name = "ren.operand"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class EllipsisAttr(ParametrizedAttribute):
    name = "ren.ellipsis"


@irdl_attr_definition
class ComplexAttr(ParametrizedAttribute):
    name = "ren.complex"
    real: FloatAttr = param_def()
    imaginary: FloatAttr = param_def()


@irdl_attr_definition
class TupleAttr(ParametrizedAttribute):
    name = "ren.tuple"
    items: ArrayAttr = param_def()


@irdl_attr_definition
class SliceAttr(ParametrizedAttribute):
    name = "ren.slice"
    start: Attribute = param_def()
    stop: Attribute = param_def()
    step: Attribute = param_def()


@irdl_attr_definition
class NamedAttr(ParametrizedAttribute):
    name = "ren.named"
    kind: StringAttr = param_def(BaseAttr(StringAttr))
    symbol: StringAttr = param_def(BaseAttr(StringAttr))


@irdl_attr_definition
class ScaleAttr(Data[SymbolicScale]):
    """An exact scale: `#ren.scale<s0^2>`."""

    name = "ren.scale"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SymbolicScale:
        return _parse_body(parser, SymbolicScale.parse)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """A layout: `#ren.layout<shape=3, frame=4, pad=zero>`."""

    name = "ren.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        return _parse_body(parser, _read_layout)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text()}>")


LITERAL_ATTRIBUTES = (OperandAttr, EllipsisAttr, ComplexAttr, TupleAttr, SliceAttr, NamedAttr, ScaleAttr, LayoutAttr)


def _read_layout(body: str) -> Layout:
    fields = _split(body)
    layout = Layout.read(fields)
    if layout is None or fields:
        raise ProgramVerifyError(f"malformed layout <{body[:80]}>")
    return layout


def _parse_body(parser: AttrParser, read: Callable[[str], Any]) -> Any:
    start = parser.pos
    body = lexer_jump(parser, 4096) if at_body(parser) else None
    if body is None:
        parser.raise_error("'<' and '>' expected", start)
    try:
        return read(body.strip())
    except (ProgramVerifyError, LayoutError, ValueError) as error:
        parser.raise_error(str(error), start)


def encode(value: Any, *, depth: int = 0) -> Attribute:
    """The attribute of a literal. Attributes pass through. Raises LiteralError for other types and too deep nesting."""
    if depth > MAX_DEPTH:
        raise LiteralError(f"literal nested deeper than {MAX_DEPTH}", subject="literal")
    kind = type(value)
    if kind is bool:
        return IntegerAttr(int(value), i1)
    if kind is int:
        return _integer(value)
    if kind is float:
        return FloatAttr(value, f64)
    if kind is str:
        return _string(value)
    if value is None:
        return UnitAttr()
    if kind is complex:
        return ComplexAttr(FloatAttr(value.real, f64), FloatAttr(value.imag, f64))
    if kind is OperandRef:
        return OperandAttr(value.index)
    if kind is tuple:
        return TupleAttr(ArrayAttr([encode(v, depth=depth + 1) for v in value]))
    if kind is list:
        return ArrayAttr([encode(v, depth=depth + 1) for v in value])
    if kind is dict:
        bad = next((k for k in value if type(k) is not str), None)
        if bad is not None:
            raise LiteralError(f"a mapping literal needs str keys, got the key {bad!r}", subject="literal")
        return DictionaryAttr({_string(k).data: encode(v, depth=depth + 1) for k, v in value.items()})
    if kind is slice:
        return SliceAttr(*(encode(v, depth=depth + 1) for v in (value.start, value.stop, value.step)))
    if value is Ellipsis:
        return EllipsisAttr()
    if kind is Named:
        return NamedAttr(_string(value.kind), _string(value.name))
    if isinstance(value, SymbolicScale):
        return ScaleAttr(value)
    if isinstance(value, Layout):
        return LayoutAttr(value)
    if isinstance(value, Attribute):
        return value
    raise LiteralError(
        f"{kind.__module__}.{kind.__qualname__} has no literal form",
        subject="literal",
        hint="None, bool, int, float, complex, str, tuple, list, dict, slice and Ellipsis have",
    )


def decode(
    attribute: Attribute, operand: Callable[[int], Any] = OperandRef, named: Callable[[Named], Any] | None = None
) -> Any:
    """The Python value of a literal attribute; `operand(i)` replaces OperandRef(i), `named(n)` a Named. Raises LiteralError for other attributes."""
    kind = type(attribute)
    if kind is IntegerAttr:
        value = attribute.value.data  # type: ignore[attr-defined]
        return bool(value) if attribute.type == i1 else value  # type: ignore[attr-defined]
    if kind is FloatAttr:
        return attribute.value.data  # type: ignore[attr-defined]
    if kind is StringAttr:
        return attribute.data  # type: ignore[attr-defined]
    if kind is UnitAttr:
        return None
    if kind is OperandAttr:
        return operand(attribute.data)  # type: ignore[attr-defined]
    if kind is ArrayAttr:
        return [decode(a, operand, named) for a in attribute.data]  # type: ignore[attr-defined]
    if kind is TupleAttr:
        return tuple(decode(a, operand, named) for a in attribute.items.data)  # type: ignore[attr-defined]
    if kind is DictionaryAttr:
        return {k: decode(v, operand, named) for k, v in attribute.data.items()}  # type: ignore[attr-defined]
    if kind is ComplexAttr:
        return complex(attribute.real.value.data, attribute.imaginary.value.data)  # type: ignore[attr-defined]
    if kind is SliceAttr:
        return slice(*(decode(a, operand, named) for a in (attribute.start, attribute.stop, attribute.step)))  # type: ignore[attr-defined]
    if kind is EllipsisAttr:
        return Ellipsis
    if kind is NamedAttr:
        symbol = Named(attribute.kind.data, attribute.symbol.data)  # type: ignore[attr-defined]
        return symbol if named is None else named(symbol)
    if kind is ScaleAttr or kind is LayoutAttr:
        return attribute.data  # type: ignore[attr-defined]
    raise LiteralError(f"{attribute.name} is no literal", subject=attribute.name)


def operand_indices(attribute: Attribute) -> list[int]:
    """All operand numbers that a literal names, in order."""
    found: list[int] = []
    decode(attribute, lambda i: found.append(i))
    return found


def _integer(value: int) -> Attribute:
    if -(1 << 63) <= value < 1 << 63:
        return IntegerAttr(value, i64)
    bits = value.bit_length() + 1
    if bits > MAX_INTEGER_BITS:
        raise LiteralError(f"an integer of {bits} bits is beyond {MAX_INTEGER_BITS}", subject="literal")
    return IntegerAttr(value, IntegerType(-(-bits // 64) * 64))


def _string(value: str) -> StringAttr:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise LiteralError("text with lone surrogates has no literal form", subject="literal") from None
    return StringAttr(value)


def string_array(values: Any) -> ArrayAttr:
    return ArrayAttr([_string(v) for v in values])


def mapping(values: Mapping[str, Any]) -> DictionaryAttr:
    return DictionaryAttr({k: encode(v) for k, v in values.items()})


__all__ = [
    "LITERAL_ATTRIBUTES",
    "BoolAttr",
    "ComplexAttr",
    "EllipsisAttr",
    "LayoutAttr",
    "LiteralError",
    "Named",
    "NamedAttr",
    "OperandAttr",
    "OperandRef",
    "ScaleAttr",
    "SliceAttr",
    "TupleAttr",
    "decode",
    "encode",
    "mapping",
    "operand_indices",
    "string_array",
]
