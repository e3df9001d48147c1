"""What the current thread is capturing, and how other parts of Ren take part in a capture.

* `outside_capture()`: work that must happen once (key generation at first use) runs as if no function were being captured;
  what it makes becomes a constant of the plan, and stays usable by later captures.
* `register_context_token(f)`: f() names what ambient state (the active CKKS context) a plan depends on; part of every key.
* `register_scalar_carrier(...)`: types that hold a public number which should not need a plan per value (`Plaintext.const`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ren.engine.where import noted
from ren.ring import RingSpec

REALIZE_INSIDE = "ren.jit: realize should not be called in a jitted function"
RANDOM_INSIDE = "Random number generation during jit capture is not supported"


class Capture:
    """One function being captured by this thread.

    fresh_random: SAMPLE nodes without a seed may be made. inline: jitted functions called inside become part of this one.
    """

    __slots__ = ("name", "fresh_random", "inline")

    def __init__(self, name: str, fresh_random: bool, inline: bool) -> None:
        self.name = name
        self.fresh_random = fresh_random
        self.inline = inline


class _State(threading.local):
    capture: Capture | None = None
    outside: int = 0


_state = _State()


def current() -> Capture | None:
    """The capture this thread is in, if any."""
    return _state.capture


@contextmanager
def capturing(capture: Capture) -> Iterator[Capture]:
    """Run the body as part of `capture`. Whatever the body raises, no capture state stays behind."""
    before = _state.capture
    _state.capture = capture
    try:
        yield capture
    finally:
        _state.capture = before


@contextmanager
def outside_capture() -> Iterator[None]:
    """Run the body as if nothing were being captured. Polys and keys that are made or realized in it are pinned: a captured
    function may reach them without being given them, and its plan keeps them as constants."""
    before = _state.capture
    _state.capture = None
    _state.outside += 1
    try:
        yield
    finally:
        _state.outside -= 1
        _state.capture = before


def pinning() -> bool:
    """Whether this thread is inside `outside_capture`."""
    return _state.outside > 0


def refuse_realize() -> None:
    """Raise inside a captured function: the graph would break into pieces there."""
    if _state.capture is not None:
        raise noted(
            RuntimeError(REALIZE_INSIDE),
            "A captured function only describes a computation; values exist when it returns. "
            "Return the Poly and realize it outside, or split the function in two at this line.",
        )


def may_draw() -> bool:
    """Whether a random Poly is drawn now (True) or at each replay (False). Raises inside a capture that freezes randomness."""
    capture = _state.capture
    if capture is None:
        return True
    if not capture.fresh_random:
        raise noted(
            RuntimeError(RANDOM_INSIDE),
            'Draw it outside and pass it as an argument, or use @ren.jit(random="fresh") to draw anew at each call.',
        )
    return False


# -- extension points --------------------------------------------------------------------------------------------------

_context_tokens: list[Callable[[], Hashable]] = []


def register_context_token(token: Callable[[], Hashable]) -> None:
    """Make `token()` part of every plan key. It must be cheap: it runs at each call of a jitted function."""
    _context_tokens.append(token)


def context_token() -> Hashable:
    """The state that plans depend on beyond their arguments."""
    return tuple([token() for token in _context_tokens])


class ScalarCarrier(NamedTuple):
    """How ren.jit treats a type that carries a public number.

    read(obj): None if this object carries none, else (the number, what else distinguishes it: part of the plan key).
    rebuild(obj, number): the same object around another number, which may be a `ren.engine.deferred.Deferred`.
    """

    read: Callable[[Any], tuple[Any, Hashable] | None]
    rebuild: Callable[[Any, Any], Any]


scalar_carriers: dict[type, ScalarCarrier] = {}


def register_scalar_carrier(
    cls: type, read: Callable[[Any], tuple[Any, Hashable] | None], rebuild: Callable[[Any, Any], Any]
) -> None:
    """Arguments of type `cls` that carry a number share one plan for all its values; the number becomes a run-time scalar."""
    scalar_carriers[cls] = ScalarCarrier(read, rebuild)


carried_fields: dict[type, frozenset[str]] = {}


def register_carried_field(cls: type, name: str) -> None:
    """Make the number in field `name` of the dataclass `cls` a run-time scalar of every plan: plans are shared by all its values, and
    what a captured function computes from it is computed again at each replay. For values that follow the data's state but choose
    no branch, such as a magnitude bound."""
    carried_fields[cls] = carried_fields.get(cls, frozenset()) | {name}


#: Dataclasses that never hold a Poly: ren.jit compares them whole instead of looking into them.
opaque_types: set[type] = {RingSpec}


def register_opaque(cls: type) -> None:
    """Tell ren.jit that `cls`, a dataclass with value equality, never holds a Poly. Call it when the class is defined."""
    opaque_types.add(cls)
