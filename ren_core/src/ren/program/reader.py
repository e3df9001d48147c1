"""From text to a verified module: xDSL's parser with its exactness faults repaired and every failure as ProgramParseError.

Parsing evaluates nothing and imports nothing: names of operations, types and call targets stay names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from ren.errors import ProgramParseError, ProgramVerifyError
from ren.program import _xdsl
from ren.program.dialect import REN, TORCH, problem_of
from ren.program.lexer import RenLexer
from ren.program.limits import DEFAULT_LIMITS, Limits, check_limits, line_column
from ren.program.order import OrderError, check_order, walk

_ILLEGAL_NAME = re.compile(r'[\x00-\x1f"\\]')
#: Prints under another name than it was read with, so it never comes back equal.
_REFUSED = re.compile(r"(?<![\w$.-])dense_resource\s*<")


class RenContext(Context):
    """Accepts unknown names, but counts them: each becomes a Python class."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(allow_unregistered=True)
        self._limits = limits
        self._unknown = 0

    def _count(self) -> None:
        self._unknown += 1
        if self._unknown > self._limits.unknown_names:
            raise ProgramVerifyError(f"more than {self._limits.unknown_names} distinct unknown names")

    def get_optional_op(self, name: str, *, dialect_stack: Sequence[str] = ()) -> type[Operation] | None:
        if name == "builtin.unregistered":
            raise ProgramVerifyError(f"illegal operation name {name!r}")
        if not _xdsl.known_op(self, name):
            if _ILLEGAL_NAME.search(name):
                raise ProgramVerifyError(f"illegal operation name {name[:80]!r}")
            self._count()
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        if not _xdsl.known_type(self, name):
            self._count()
        return super().get_optional_type(name)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        if not _xdsl.known_attr(self, name):
            self._count()
        return super().get_optional_attr(name)


class RenParser(Parser):
    """Remembers where each operation starts, so that faults found after parsing point at it."""

    def __init__(self, context: Context, text: str, source: str) -> None:
        super().__init__(context, "", source)
        _xdsl.set_lexer(self, RenLexer(_xdsl.lexer_input(text, source)))
        self.starts: dict[Operation, int] = {}

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        self.starts[op] = start
        return op


def parse_module(text: str, source: str, dialects: Iterable[Dialect] = (), limits: Limits = DEFAULT_LIMITS) -> ModuleOp:
    """The verified module that `text` describes.

    Raises ProgramParseError (source, line, column) for text that is not legal, exceeds a limit, or describes a program that does not verify.
    """
    check_limits(text, source, limits)
    refused = _REFUSED.search(text)
    if refused is not None:
        raise ProgramParseError(
            source, *line_column(text, refused.start()), "dense_resource does not survive a round trip: use a material"
        )
    context = RenContext(limits)
    for dialect in (Builtin, Func, REN, TORCH, *dialects):
        context.load_dialect(dialect)
    with _xdsl.gc_paused():
        return _parse(text, source, context)


def _parse(text: str, source: str, context: RenContext) -> ModuleOp:
    parser: RenParser | None = None
    try:
        parser = RenParser(context, text, source)
        module = parser.parse_module()
    except ParseError as error:
        raise ProgramParseError(source, *line_column(text, error.span.start), error.msg) from None
    except (RecursionError, MemoryError) as error:
        raise ProgramParseError(source, *_position(text, parser), f"{type(error).__name__} while parsing") from None
    except (
        VerifyException,
        ValueError,
        AssertionError,
        KeyError,
        TypeError,
        OverflowError,
        AttributeError,
        IndexError,
    ) as error:
        # xDSL reports malformed attributes with whatever their constructors raise.
        raise ProgramParseError(source, *_position(text, parser), _message(error)) from error
    # Errors found on the finished module are looked up by operation: the parser is at the end of the text by now.
    try:
        check_order(module)
    except OrderError as error:
        raise ProgramParseError(source, *line_column(text, parser.starts.get(error.operation, 0)), str(error)) from None
    fault = first_fault(module)
    if fault is not None:
        raise ProgramParseError(source, *line_column(text, parser.starts.get(fault[0], 0)), fault[1])
    return module


def first_fault(module: Operation) -> tuple[Operation, str] | None:
    """The first operation that xDSL's verifier refuses, innermost, and why. Each operation is verified on its own, so that a fault does not
    print the whole module into the exception."""
    for op in walk(module):
        # Ours first: it says more than "should be of base attribute".
        problem = problem_of(op)
        if problem is not None:
            return op, f"{op.name}: {problem}"
        try:
            op.verify(verify_nested_ops=False)
        except (VerifyException, ValueError) as error:
            error.__dict__.pop("__notes__", None)
            return op, f"{op.name}: {_message(error, op.name)}"
    return None


def _position(text: str, parser: RenParser | None) -> tuple[int, int]:
    return (1, 1) if parser is None else line_column(text, min(parser.pos, len(text)))


def _message(error: BaseException, name: str = "") -> str:
    error.__dict__.pop("__notes__", None)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    for prefix in ("Operation does not verify: ", f"{name}: "):
        text = text.removeprefix(prefix)
    return text[:500]
