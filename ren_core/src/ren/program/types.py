"""The role types of the `ren` dialect: `!ren.encrypted<...>`, `!ren.message`, `!ren.plaintext`, `!ren.material`, `!ren.resource`.

Types are interned: one object per state, so that comparing types is comparing identity in almost every case and state rules can be
memoised on it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ren.errors import ProgramVerifyError
from ren.program._xdsl import at_body, lexer_jump
from ren.program.layout import LayoutError
from ren.program.states import EncryptedState, MessageState, PlaintextState, SymbolState

_MAX_BODY = 4096
_MAX_INTERNED = 1 << 16


class _Interned:
    """One object per data. Losing one (the table is emptied when it grows too large) costs speed, not correctness."""

    _table: ClassVar[dict[Any, Any]]

    def __new__(cls, data: Any = None) -> Any:
        if data is None:  # copying and unpickling fill the object afterwards
            return object.__new__(cls)
        found = cls._table.get(data)
        if found is None:
            if len(cls._table) >= _MAX_INTERNED:
                cls._table.clear()
            found = cls._table.setdefault(data, object.__new__(cls))
        return found


def _parse_body(parser: AttrParser, state_class: Any, seen: dict[str, Any]) -> Any:
    """The state written between < and >, or the empty one when there is no <. `seen` remembers bodies: they repeat."""
    if not at_body(parser):
        return state_class()
    start = parser.pos
    jump = lexer_jump(parser, _MAX_BODY)
    if jump is None:
        parser.raise_error(f"'>' expected within {_MAX_BODY} characters", start)
    body = jump.strip()
    state = seen.get(body)
    if state is None:
        try:
            state = state_class.read(body)
        except (ProgramVerifyError, LayoutError) as error:
            parser.raise_error(f"malformed type: {error}", start)
        if len(seen) >= _MAX_INTERNED:
            seen.clear()
        seen[body] = state
    return state


def _print_body(printer: Printer, text: str) -> None:
    if text:
        printer.print_string(f"<{text}>")


@irdl_attr_definition
class EncryptedType(_Interned, Data[EncryptedState], TypeAttribute):
    """A value under encryption."""

    name = "ren.encrypted"
    _table: ClassVar[dict[Any, Any]] = {}
    _seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> EncryptedState:
        return _parse_body(parser, EncryptedState, cls._seen)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        _print_body(printer, self.data.text())


@irdl_attr_definition
class PlaintextType(_Interned, Data[PlaintextState], TypeAttribute):
    """A public value encoded for CKKS."""

    name = "ren.plaintext"
    _table: ClassVar[dict[Any, Any]] = {}
    _seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PlaintextState:
        return _parse_body(parser, PlaintextState, cls._seen)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        _print_body(printer, self.data.text())


@irdl_attr_definition
class MessageType(_Interned, Data[MessageState], TypeAttribute):
    """Public data: what the caller passes at run time, or a static value."""

    name = "ren.message"
    _table: ClassVar[dict[Any, Any]] = {}
    _seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MessageState:
        return _parse_body(parser, MessageState, cls._seen)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        _print_body(printer, self.data.text())


@irdl_attr_definition
class MaterialType(_Interned, Data[SymbolState], TypeAttribute):
    """An opaque public object of `workspace["materials"]`."""

    name = "ren.material"
    _table: ClassVar[dict[Any, Any]] = {}
    _seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SymbolState:
        return _parse_body(parser, SymbolState, cls._seen)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        _print_body(printer, self.data.text())


@irdl_attr_definition
class ResourceType(_Interned, Data[SymbolState], TypeAttribute):
    """An opaque object of `workspace["resources"]`: a service, a table, a file."""

    name = "ren.resource"
    _table: ClassVar[dict[Any, Any]] = {}
    _seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SymbolState:
        return _parse_body(parser, SymbolState, cls._seen)  # type: ignore[no-any-return]

    def print_parameter(self, printer: Printer) -> None:
        _print_body(printer, self.data.text())


ROLE_TYPES = (EncryptedType, MessageType, PlaintextType, MaterialType, ResourceType)


def encrypted(state: EncryptedState | None = None, **fields: Any) -> EncryptedType:
    """The encrypted type of a state, or of the given fields: `encrypted(level=1, layout=FULL)`."""
    return EncryptedType(EncryptedState(**fields) if state is None else state)


def plaintext(state: PlaintextState | None = None, **fields: Any) -> PlaintextType:
    return PlaintextType(PlaintextState(**fields) if state is None else state)


def message(shape: tuple[int, ...] | None = None, dtype: str | None = None) -> MessageType:
    """Runtime public data, with its tensor shape and dtype when they are known."""
    return MessageType(MessageState("message", shape, dtype))


def static(shape: tuple[int, ...] | None = None, dtype: str | None = None) -> MessageType:
    """A static public value: the result of `ren.constant`."""
    return MessageType(MessageState("static", shape, dtype))


def role_of(type_: Attribute) -> str | None:
    """ "encrypted", "plaintext", "message", "static", "material", "resource"; None for types that are not ours."""
    if isinstance(type_, MessageType):
        return type_.data.kind
    return type_.name.removeprefix("ren.") if isinstance(type_, ROLE_TYPES) else None
