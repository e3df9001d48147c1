"""Every private name of xDSL that Ren uses, in one place.

xDSL is pinned to 0.75.x because of this file; `tests/core/program/test_xdsl_privates.py` checks that each name still exists and
means what it is used for. The accessors exist for speed: `op.operands` builds a descriptor object (0.6 us), `op._operands` does not.
"""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.parser import AttrParser, Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

__all__ = [
    "PRINTING",
    "STRING_PATTERN",
    "at_body",
    "block_ops",
    "gc_paused",
    "known_attr",
    "known_op",
    "known_type",
    "lexer_input",
    "lexer_jump",
    "new_value_name",
    "next_op",
    "operands",
    "operation_name",
    "prev_op",
    "printed_names",
    "set_lexer",
    "set_value_type",
    "successors",
]


def operands(op: Operation) -> Sequence[SSAValue]:
    """The operand tuple itself, without a view object around it."""
    return op._operands


def successors(op: Operation) -> Sequence[Block]:
    return op._successors


def next_op(op: Operation) -> Operation | None:
    return op._next_op


def prev_op(op: Operation) -> Operation | None:
    return op._prev_op


def block_ops(block: Block) -> Iterator[Operation]:
    """Operations of a block in order. The current one may be erased or have others inserted before it."""
    op = block.first_op
    while op is not None:
        following = op._next_op
        yield op
        op = following


def set_value_type(value: SSAValue, type_: Attribute) -> None:
    """Change the type of a value in place."""
    value._type = type_


def set_lexer(parser: Parser, lexer: MLIRLexer) -> None:
    """Let `parser` read from `lexer`, from its start."""
    parser._parser_state = ParserState(lexer)


def at_body(parser: AttrParser) -> bool:
    """Whether the current token is `<`."""
    return parser._current_token.text == "<"


def lexer_jump(parser: AttrParser, limit: int) -> str | None:
    """The text between the current `<` and the next `>`, read with one search; None if there is none within `limit` characters.

    A token per field would cost three times as much; bodies read this way contain neither `>` nor quotes.
    """
    lexer = parser.lexer
    content = lexer.input.content
    start = parser._parser_state.current_token.span.end
    end = content.find(">", start, start + limit)
    if end < 0:
        return None
    lexer.pos = end + 1
    parser._parser_state.current_token = lexer.lex()
    return content[start:end]


def lexer_input(text: str, source: str) -> Input[str]:
    return Input(text, source)


def printed_names(printer: Printer) -> dict[SSAValue, str]:
    """The names a printer gave so far."""
    return printer._ssa_values


def new_value_name(printer: Printer) -> str:
    """The next unused number of a printer."""
    return printer._get_new_valid_name_id()


def known_op(context: Context, name: str) -> bool:
    return name in context._loaded_ops


def known_type(context: Context, name: str) -> bool:
    return name in context._loaded_types


def known_attr(context: Context, name: str) -> bool:
    return name in context._loaded_attrs


#: MLIRLexer._unescaped_characters_regex with possessive quantifiers.
STRING_PATTERN = re.compile(r'"((?:[^"\\\n\v\f]++|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*+)"')

#: Held while printing: xDSL removes the name of an unregistered operation for a moment.
PRINTING = threading.Lock()


def operation_name(op: Operation) -> str:
    """The name in the text; xDSL calls every unregistered operation builtin.unregistered."""
    if not isinstance(op, UnregisteredOp):
        return op.name
    stored = op.attributes.get("op_name__")
    if stored is None:
        with PRINTING:
            stored = op.attributes["op_name__"]
    return stored.data  # type: ignore[attr-defined,no-any-return]


@contextmanager
def gc_paused() -> Iterator[None]:
    """The cyclic collector paused. Its full passes over a growing heap make rewriting 17 times slower from 5,000 to 50,000
    operations instead of 11; the state that was found is restored."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
