"""xDSL's lexer with its faults repaired, and one regular expression for the common tokens (a quarter of the parse time)."""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ren.program import _xdsl

# Blanks and comments are skipped possessively: with backtracking, the text of a comment would become an identifier.
_COMMON = re.compile(
    r"(?:\s++|//[^\n]*+)*+"
    r"(?:(?P<identifier>[A-Za-z_][A-Za-z0-9_$.]*+)"
    r"|(?P<prefixed>(?!\#-\})[%^#!](?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+))"
    r"|(?P<number>[0-9]++(?![0-9.x]))"
    r"|(?P<arrow>->)"
    r"|(?P<punctuation>[:,()}\[\]<>=+/*?|])"
    r'|(?P<string>"[^"\\\n\v\f]*+"))',
    re.ASCII,
)
_PUNCTUATION = {c: KIND_BY_PUNCTUATION_SPELLING[c] for c in ":,()}[]<>=+/*?|"}
_PREFIX = {
    "%": MLIRTokenKind.PERCENT_IDENT,
    "^": MLIRTokenKind.CARET_IDENT,
    "#": MLIRTokenKind.HASH_IDENT,
    "!": MLIRTokenKind.EXCLAMATION_IDENT,
}
_FIXED = {
    "identifier": MLIRTokenKind.BARE_IDENT,
    "number": MLIRTokenKind.INTEGER_LIT,
    "arrow": MLIRTokenKind.ARROW,
}


class RenLexer(MLIRLexer):
    """Strings with non-ASCII characters stay strings (xDSL turns them into bytes, which other constraints then refuse), and the pattern of a
    string cannot backtrack (an unterminated one of 30 characters would take minutes)."""

    _unescaped_characters_regex = _xdsl.STRING_PATTERN

    def lex(self) -> MLIRToken:
        found = _COMMON.match(self.input.content, self.pos)
        if found is None:
            return super().lex()
        group = found.lastgroup
        assert group is not None
        start, end = found.span(group)
        if group == "identifier" and not self.input.content[end : end + 1].isascii():
            return super().lex()  # a letter that ASCII does not know may continue it
        self.pos = end
        if group == "string":
            return Token(MLIRTokenKind.STRING_LIT, StringLiteral(start, end, self.input))
        if group == "punctuation":
            kind = _PUNCTUATION[self.input.content[start]]
        elif group == "prefixed":
            kind = _PREFIX[self.input.content[start]]
        else:
            kind = _FIXED[group]
        return Token(kind, Span(start, end, self.input))

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            try:
                token.span.bytes_contents.decode()  # type: ignore[attr-defined]
            except UnicodeDecodeError:
                return token
            return Token(MLIRTokenKind.STRING_LIT, token.span)
        return token
