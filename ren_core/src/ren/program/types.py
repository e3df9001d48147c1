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


class _StateType:
    """What the role types share: one object per state, and the text of the state between < and >.

    Losing an object (a table is emptied when it grows too large) costs speed, not correctness.
    """

    _state: ClassVar[type[Any]]  # what `data` is
    _objects: ClassVar[dict[Any, Any]]  # state -> type
    _bodies: ClassVar[dict[str, Any]]  # text -> state: the bodies of one program repeat

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._objects, cls._bodies = {}, {}

    def __new__(cls, data: Any = None) -> Any:
        if data is None:  # copying and unpickling fill the object afterwards
            return object.__new__(cls)
        found = cls._objects.get(data)
        return _remember(cls._objects, data, object.__new__(cls)) if found is None else found

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """The state written between < and >, or the empty one when there is no <."""
        if not at_body(parser):
            return cls._state()
        start = parser.pos
        jump = lexer_jump(parser, _MAX_BODY)
        if jump is None:
            parser.raise_error(f"'>' expected within {_MAX_BODY} characters", start)
        body = jump.strip()
        state = cls._bodies.get(body)
        if state is None:
            try:
                state = cls._state.read(body)
            except (ProgramVerifyError, LayoutError) as error:
                parser.raise_error(f"malformed type: {error}", start)
            _remember(cls._bodies, body, state)
        return state

    def print_parameter(self, printer: Printer) -> None:
        text = self.data.text()  # type: ignore[attr-defined]  # every subclass is a Data
        if text:
            printer.print_string(f"<{text}>")


def _remember(table: dict[Any, Any], key: Any, value: Any) -> Any:
    """`value`, or what another thread has put there first."""
    if len(table) >= _MAX_INTERNED:
        table.clear()
    return table.setdefault(key, value)


@irdl_attr_definition
class EncryptedType(_StateType, Data[EncryptedState], TypeAttribute):
    """A value under encryption."""

    name = "ren.encrypted"
    _state = EncryptedState


@irdl_attr_definition
class PlaintextType(_StateType, Data[PlaintextState], TypeAttribute):
    """A public value encoded for CKKS."""

    name = "ren.plaintext"
    _state = PlaintextState


@irdl_attr_definition
class MessageType(_StateType, Data[MessageState], TypeAttribute):
    """Public data: what the caller passes at run time, or a static value."""

    name = "ren.message"
    _state = MessageState


@irdl_attr_definition
class MaterialType(_StateType, Data[SymbolState], TypeAttribute):
    """An opaque public object of `workspace["materials"]`."""

    name = "ren.material"
    _state = SymbolState


@irdl_attr_definition
class ResourceType(_StateType, Data[SymbolState], TypeAttribute):
    """An opaque object of `workspace["resources"]`: a service, a table, a file."""

    name = "ren.resource"
    _state = SymbolState


ROLE_TYPES = (EncryptedType, MessageType, PlaintextType, MaterialType, ResourceType)


def encrypted(state: EncryptedState | None = None, **fields: Any) -> EncryptedType:
    """The encrypted type of a state, or of the given fields: `encrypted(level=1, layout=FULL)`."""
    return EncryptedType(EncryptedState(**fields) if state is None else state)


def plaintext(state: PlaintextState | None = None, **fields: Any) -> PlaintextType:
    return PlaintextType(PlaintextState(**fields) if state is None else state)


def message(shape: tuple[int, ...] | None = None, dtype: str | None = None, bound: float | None = None) -> MessageType:
    """Runtime public data, with its tensor shape, dtype and largest absolute element when they are known."""
    return MessageType(MessageState("message", shape, dtype, bound))


def static(shape: tuple[int, ...] | None = None, dtype: str | None = None) -> MessageType:
    """A static public value: the result of `ren.constant`."""
    return MessageType(MessageState("static", shape, dtype))


def role_of(type_: Attribute) -> str | None:
    """ "encrypted", "plaintext", "message", "static", "material", "resource"; None for types that are not ours."""
    if isinstance(type_, MessageType):
        return type_.data.kind
    return type_.name.removeprefix("ren.") if isinstance(type_, ROLE_TYPES) else None
