"""From a module to text that reads back to the same module and prints to the same bytes.

Types are printed through aliases (`!t0 = !ren.encrypted<...>` at the top): text is four times shorter and parses three times faster.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer

from ren.program import _xdsl
from ren.program.order import walk
from ren.program.types import EncryptedType, MessageType, PlaintextType

_SUFFIX = re.compile(r"(_\d+)+$")
_ESCAPED = re.compile(rb'[^\x20-\x7e]|["\\]')
_ALIASED = (EncryptedType, PlaintextType, MessageType)


class RenPrinter(Printer):
    """Collision-free value names, fast strings, type aliases."""

    def __init__(self, stream: IO[str], *, locations: bool, generic: bool, aliases: dict[Attribute, str]) -> None:
        super().__init__(stream=stream, print_generic_format=generic, print_debuginfo=locations)
        self._aliases = aliases

    def print_ssa_value(self, value: SSAValue) -> str:
        # A hint such as a_7 parses back as a, so numbers at its end never reach the text as part of the hint.
        names = _xdsl.printed_names(self)
        name = names.get(value)
        if name is None:
            hint = value.name_hint
            if hint and hint[-1].isdigit():
                hint = _SUFFIX.sub("", hint)
            if hint:
                count = self.ssa_names.get(hint, 0)
                name = f"{hint}_{count}" if count else hint
                self.ssa_names[hint] = count + 1
            else:
                name = _xdsl.new_value_name(self)
            names[value] = name
        self.print_string("%" + name)
        return name

    def print_bytes_literal(self, bytestring: bytes) -> None:
        self.print_string('"' + _ESCAPED.sub(_escape, bytestring).decode("ascii") + '"')

    def print_attribute(self, attribute: Attribute) -> None:
        alias = self._aliases.get(attribute) if type(attribute) in _ALIASED else None
        if alias is not None:
            self.print_string(alias)
        else:
            super().print_attribute(attribute)


def _escape(found: re.Match[bytes]) -> bytes:
    return b"\\\\" if found[0] == b"\\" else b"\\%02X" % found[0][0]


def module_text(module: ModuleOp, *, generic: bool = False, locations: bool = False) -> str:
    """The text of a module, ending in a newline."""
    aliases: dict[Attribute, str] = {}
    for op in walk(module):
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _alias(argument.type, aliases)
        for result in op.results:
            _alias(result.type, aliases)
    out = StringIO()
    with _xdsl.PRINTING, _xdsl.gc_paused():
        for type_, name in aliases.items():
            out.write(f"{name} = ")
            Printer(stream=out).print_attribute(type_)
            out.write("\n")
        RenPrinter(out, locations=locations, generic=generic, aliases=aliases).print_op(module)
    out.write("\n")
    return out.getvalue()


def _alias(type_: Attribute, aliases: dict[Attribute, str]) -> None:
    # Types without content print shorter than any alias.
    if type(type_) in _ALIASED and type_ not in aliases and type_.data.text():  # type: ignore[attr-defined]
        aliases[type_] = f"!t{len(aliases)}"
