"""Host-side arithmetic on run-time scalars: what a captured function does with a number that changes from call to call.

During a capture a dynamic scalar is a `Deferred`: an expression over the scalars of the call. Arithmetic builds a longer
expression; meeting a Poly turns it into a SCALAR slot whose residues are evaluated at each replay. Any use that would steer
Python (truth, comparison, int(), indexing, hashing) raises, because the recorded plan holds one branch only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ren.engine.where import noted

#: Types of scalars that are equal only if they are the same (tuples are the residues of constant Polys).
_COMPARED = frozenset({int, float, complex, tuple})
_CONTROL = 'ren.jit: a dynamic scalar steers Python control flow ({use} of {name}); its value changes between replays, the captured branch does not. Use scalars="recapture", or compute on it only.'


class Deferred:
    """A number known only when a plan runs.

    sample: its value at capture (decides nothing, is only computed with). name: how messages call it.
    `Recipes` evaluates it for the scalars of a call.
    """

    __slots__ = ("sample", "name", "_apply", "_args")

    def __init__(self, sample: Any, name: str, apply: Callable[..., Any] | None, args: tuple[Any, ...]) -> None:
        self.sample = sample
        self.name = name
        self._apply = apply
        self._args = args

    @classmethod
    def leaf(cls, index: int, sample: Any, name: str) -> Deferred:
        """Scalar number `index` of the call."""
        return cls(sample, name, None, (index,))

    # -- arithmetic: a longer expression

    def _binary(self, f: Callable[..., Any], other: Any, *, swap: bool = False) -> Any:
        if not isinstance(other, (int, float, complex, Deferred)):
            return NotImplemented
        return deferred_call(f, other, self) if swap else deferred_call(f, self, other)

    def __add__(self, other: Any) -> Any:
        return self._binary(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._binary(operator.add, other, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(operator.sub, other, swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary(operator.mul, other, swap=True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(operator.truediv, other, swap=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary(operator.floordiv, other, swap=True)

    def __mod__(self, other: Any) -> Any:
        return self._binary(operator.mod, other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary(operator.mod, other, swap=True)

    def __pow__(self, other: Any) -> Any:
        return self._binary(operator.pow, other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(operator.pow, other, swap=True)

    def __neg__(self) -> Deferred:
        return deferred_call(operator.neg, self)  # type: ignore[no-any-return]

    def __pos__(self) -> Deferred:
        return self

    def __abs__(self) -> Deferred:
        return deferred_call(abs, self)  # type: ignore[no-any-return]

    def __round__(self, digits: int | None = None) -> Deferred:
        return deferred_call(round, self, digits)  # type: ignore[no-any-return]

    # -- printing does not steer anything

    def __repr__(self) -> str:
        return repr(self.sample)

    def __str__(self) -> str:
        return str(self.sample)

    def __format__(self, spec: str) -> str:
        return format(self.sample, spec)

    # -- control

    def _refuse(self, use: str) -> NoReturn:
        raise noted(RuntimeError(_CONTROL.format(use=use, name=self.name)))

    def __bool__(self) -> bool:
        self._refuse("truth test")

    def __int__(self) -> int:
        self._refuse("int()")

    def __float__(self) -> float:
        self._refuse("float()")

    def __complex__(self) -> complex:
        self._refuse("complex()")

    def __index__(self) -> int:
        self._refuse("use as an index or count")

    def __hash__(self) -> int:
        self._refuse("hashing")

    def __eq__(self, other: object) -> bool:
        self._refuse("comparison")

    def __lt__(self, other: object) -> bool:
        self._refuse("comparison")

    __le__ = __gt__ = __ge__ = __ne__ = __lt__


def deferred_call(f: Callable[..., Any], *args: Any) -> Any:
    """f(*args), now if every argument is known, else as a Deferred that calls f at each replay.

    The way for code outside this module to compute on scalars that may be dynamic (rounding v * scale to an integer, checking a
    bound): errors raised by f surface from the call that replays. f must depend on its arguments alone: for the same scalars a replay may take
    what it gave before.
    """
    for a in args:  # a plain loop: mostly there is none, and a comprehension would cost as much as f
        if isinstance(a, Deferred):
            sample = f(*(b.sample if isinstance(b, Deferred) else b for b in args))
            return Deferred(sample, a.name, f, args)
    return f(*args)


class Recipes:
    """The expressions of one captured function as a straight-line program over the scalars of a call, shared parts once.

    inputs: how many scalars a call has. `add` gives the place of an expression's value in what `run` returns.
    """

    __slots__ = ("inputs", "_steps", "_at", "_kept", "_before")

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        # Function, its arguments with gaps, and what fills them: (argument, place among the values).
        self._steps: list[tuple[Callable[..., Any], list[Any], tuple[tuple[int, int], ...]]] = []
        self._at: dict[int, int] = {}
        self._before: tuple[list[Any], list[type], list[Any]] | None = None
        self._kept: list[Deferred] = []  # ids stay unique while these live

    def add(self, recipe: Deferred) -> int:
        """Make `recipe` part of the program. Iterative."""
        stack = [recipe]
        while stack:
            node = stack[-1]
            if id(node) in self._at:
                stack.pop()
                continue
            self._kept.append(node)
            self._before = None
            if node._apply is None:
                self._at[id(node)] = node._args[0]
                continue
            missing = [a for a in node._args if isinstance(a, Deferred) and id(a) not in self._at]
            if missing:
                stack.extend(missing)
                continue
            fixed = [None if isinstance(a, Deferred) else a for a in node._args]
            filled = tuple((i, self._at[id(a)]) for i, a in enumerate(node._args) if isinstance(a, Deferred))
            self._at[id(node)] = self.inputs + len(self._steps)
            self._steps.append((node._apply, fixed, filled))
        return self._at[id(recipe)]

    def run(self, scalars: Sequence[Any]) -> list[Any]:
        """All values for one call: the scalars, then one per step; not to be changed. Raises what the computations raise.

        Those of the last call are used again for equal scalars: most often only buffers change. Not where a result is infinite, as a bound is
        that does not fit: each call warns of it.
        """
        before = self._before
        values = list(scalars)
        types = list(map(type, values))
        if before is not None and before[1] == types and before[0] == values:
            return before[2]
        given = values.copy()
        append = values.append
        for apply, fixed, filled in self._steps:
            arguments = fixed.copy()
            for i, at in filled:
                arguments[i] = values[at]
            append(apply(*arguments))
        # 0.0 == -0.0, and they are not the same.
        if _COMPARED.issuperset(types) and all(given) and not any(type(v) is float and math.isinf(v) for v in values):
            self._before = given, types, values
        return values
