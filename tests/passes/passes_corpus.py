"""A corpus of programs with what they mean, for the tests of passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ren.program import InputSpec, encrypted, message, types
from ren.testing.program_kit import ProgramBuilder

S = 64
X = np.cos(np.arange(S)) * 0.9
Y = np.sin(1 + np.arange(S)) / 2
Z = np.cos(np.arange(S) * 0.7) / 3
W = np.linspace(-1, 1, S)
V3, V8 = np.array([0.5, -1.0, 0.75]), np.linspace(-1, 1, 8)
M24 = np.arange(8.0).reshape(2, 4) / 8
#: Noise of these depths at 40 bits stays below; a wrong value does not.
CLOSE = {"rtol": 0, "atol": 2e-6}


class Sem:
    """Semantic operations by short names: `s.mul(x, y)`."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self.b = builder

    def __getitem__(self, name: str) -> Any:
        return self.b[name]

    def op(self, name: str, *values: Any, **attributes: Any) -> Any:
        values = tuple(self.b.constant(v) if isinstance(v, (int, float, complex)) else v for v in values)
        return self.b(f"ren.semantic.{name}", *values, **attributes)

    def add(self, x: Any, y: Any) -> Any:
        return self.op("add", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return self.op("subtract", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.op("multiply", x, y)

    def roll(self, x: Any, shift: int, **at: Any) -> Any:
        return self.op("roll", x, shift=shift, **at)

    def held(self, symbol: str, shape: tuple[int, ...]) -> Any:
        return self.b("ren.material.ref", types=[types.message(shape, "float64")], symbol=symbol, kind="tensor")

    def horner(self, x: Any, coefficients: list[float]) -> Any:
        total: Any = self.add(self.mul(x, coefficients[-1]), coefficients[-2])
        for c in coefficients[-3::-1]:
            total = self.add(self.mul(total, x), c)
        return total

    def powers(self, x: Any, coefficients: list[float]) -> Any:
        total: Any = None
        for i, c in enumerate(coefficients[1:], 1):
            term = self.mul(self.op("power", x, exponent=i) if i > 1 else x, c)
            total = term if total is None else self.add(total, term)
        return self.add(total, coefficients[0])


@dataclass(frozen=True)
class Case:
    name: str
    inputs: dict[str, InputSpec]
    build: Callable[[Sem], Any]
    expected: Callable[..., Any]
    arguments: tuple[Any, ...]
    materials: tuple[tuple[str, Any], ...] = ()


CASES: list[Case] = []


def case(name: str, build: Callable[[Sem], Any], expected: Callable[..., Any], *arguments: Any, **more: Any) -> None:
    inputs = more.pop("inputs", None)
    if inputs is None:
        inputs = dict(zip("xyz", [encrypted() for _ in arguments], strict=False))
    materials = tuple(more.items())
    CASES.append(Case(name, inputs, build, expected, arguments, materials))


def poly(coefficients: list[float], x: Any) -> Any:
    return np.polynomial.polynomial.polyval(x, coefficients)


def coefficients_of(degree: int) -> list[float]:
    return [round(float(np.cos(3 * i + degree)), 3) / (i + 1) for i in range(degree + 1)]


for degree in range(2, 16):
    c = coefficients_of(degree)
    case(f"polynomial-{degree}", lambda s, c=c: s.op("polynomial", s["x"], coefficients=c), lambda x, c=c: poly(c, x), X,
         inputs={"x": encrypted(bound=1.0)})  # fmt: skip
for degree in (2, 3, 5, 7, 8):
    c = coefficients_of(degree)
    case(f"sum-of-powers-{degree}", lambda s, c=c: s.powers(s["x"], c), lambda x, c=c: poly(c, x), X)
for degree in (2, 3, 4):
    c = coefficients_of(degree)
    case(f"horner-{degree}", lambda s, c=c: s.horner(s["x"], c), lambda x, c=c: poly(c, x), X)

case("x2+x", lambda s: s.add(s.mul(s["x"], s["x"]), s["x"]), lambda x: x * x + x, X)
case("2x+x", lambda s: s.add(s.mul(2, s["x"]), s["x"]), lambda x: 2 * x + x, X)
case("2.5x+x", lambda s: s.add(s.mul(2.5, s["x"]), s["x"]), lambda x: 2.5 * x + x, X)
case("2x2-1", lambda s: s.sub(s.mul(s.mul(2, s["x"]), s["x"]), 1), lambda x: 2 * x * x - 1, X)
case(
    "half-x2-plus-quarter-x2",
    lambda s: s.add(s.mul(s.mul(s["x"], s["x"]), 0.5), s.mul(s.mul(s["x"], 0.25), s["x"])),
    lambda x: 0.75 * x * x,
    X,
)
case("x2+2x", lambda s: s.add(s.mul(s["x"], s["x"]), s.mul(2, s["x"])), lambda x: x * x + 2 * x, X)


def chebyshev(s: Sem, times: int) -> Any:
    x = s["x"]
    for _ in range(times):
        x = s.sub(s.mul(s.mul(2, x), x), 1)
    return x


def chebyshev_of(x: Any, times: int) -> Any:
    for _ in range(times):
        x = 2 * x * x - 1
    return x


case("2x2-1-six-times", lambda s: chebyshev(s, 6), lambda x: chebyshev_of(x, 6), X)
case("minus", lambda s: s.op("negate", s.sub(s["x"], s["y"])), lambda x, y: y - x, X, Y)
case("x*y+z", lambda s: s.add(s.mul(s["x"], s["y"]), s["z"]), lambda x, y, z: x * y + z, X, Y, Z)
case("x-x*y*z", lambda s: s.sub(s["x"], s.mul(s.mul(s["x"], s["y"]), s["z"])), lambda x, y, z: x - x * y * z, X, Y, Z)
case(
    "mixed-depth-product",
    lambda s: s.mul(s.op("power", s["x"], exponent=4), s["y"]),
    lambda x, y: x**4 * y,
    X,
    Y,
)
case(
    "sum-of-products",
    lambda s: s.add(s.add(s.mul(s["x"], s["y"]), s.mul(s["y"], s["z"])), s.mul(s["x"], s["z"])),
    lambda x, y, z: x * y + y * z + x * z,
    X,
    Y,
    Z,
)
case(
    "difference-of-products",
    lambda s: s.sub(s.mul(s["x"], s["y"]), s.sub(s.mul(s["z"], s["z"]), s.op("square", s["x"]))),
    lambda x, y, z: x * y - (z * z - x * x),
    X,
    Y,
    Z,
)
case("same-product-twice", lambda s: s.add(s.mul(s["x"], s["y"]), s.mul(s["x"], s["y"])), lambda x, y: 2 * x * y, X, Y)


def shared_sum(s: Sem) -> Any:
    """One product is used in two sums and returned by itself."""
    m = s.mul(s["x"], s["y"])
    return s.add(m, s.mul(s["y"], s["y"])), s.sub(m, s["x"]), m


case("shared-product", shared_sum, lambda x, y: (x * y + y * y, x * y - x, x * y), X, Y)
case("doubled", lambda s: s.mul(s.add(s["x"], s["x"]), s.add(s["x"], s["x"])), lambda x: 4 * x * x, X)
case("sum-of-itself", lambda s: (lambda m: s.add(m, m))(s.mul(s["x"], s["x"])), lambda x: 2 * x * x, X)


def dot(s: Sem) -> Any:
    total: Any = None
    for i in range(6):
        term = s.mul(s.roll(s["x"], i), s.roll(s["y"], -i))
        total = term if total is None else s.add(total, term)
    return total


case("rolled-products", dot, lambda x, y: sum(np.roll(x, i) * np.roll(y, -i) for i in range(6)), X, Y)
case("two-outputs", lambda s: (s.mul(s["x"], s["y"]), s.roll(s["x"], 5)), lambda x, y: (x * y, np.roll(x, 5)), X, Y)
case("input-returned", lambda s: (s["x"], s.op("square", s["x"])), lambda x: (x, x * x), X)

case(
    "factors-of-one-value", lambda s: s.mul(s.op("negate", s.mul(s.mul(s["x"], 0.5), 3)), -0.25), lambda x: x * 0.375, X
)
case("nothing-to-do", lambda s: (s.mul(s["x"], 1), s.roll(s["y"], S)), lambda x, y: (x, y), X, Y)
case("nothing-to-do-3", lambda s: s.roll(s["x"], 3), lambda x: x, V3,
     inputs={"x": encrypted(slots=3)})  # fmt: skip
W_IN: dict[str, Any] = {"x": encrypted(), "w": message()}
case("x*w", lambda s: s.mul(s["x"], s["w"]), lambda x, w: x * w, X, W, inputs=W_IN)
case("w-x", lambda s: s.sub(s["w"], s["x"]), lambda x, w: w - x, X, W, inputs=W_IN)
case("x-w", lambda s: s.sub(s["x"], s["w"]), lambda x, w: x - w, X, W, inputs=W_IN)
case("x/w", lambda s: s.op("divide", s["x"], s["w"]), lambda x, w: x / w, X, W + 2, inputs=W_IN)
case("x/3", lambda s: s.op("divide", s["x"], 3), lambda x: x / 3, X)
case(
    "w(x2)+w+x",
    lambda s: s.add(s.add(s.mul(s["w"], s.mul(s["x"], s["x"])), s["w"]), s["x"]),
    lambda x, w: w * x * x + w + x,
    X,
    W,
    inputs=W_IN,
)


def diagonals(s: Sem) -> Any:
    total: Any = None
    for i in range(4):
        term = s.mul(s.roll(s["x"], i), s["w"])
        total = term if total is None else s.add(total, term)
    total = s.add(total, s["w"])
    return s.mul(s.add(total, 0.25), s.sub(total, 0.5))


def diagonals_of(x: Any, w: Any) -> Any:
    a = sum(np.roll(x, i) * w for i in range(4)) + w
    return (a + 0.25) * (a - 0.5)


case("affine-quadratic", diagonals, diagonals_of, X, W, inputs=W_IN)
case("complex-scalar", lambda s: s.mul(s["x"], 0.5 + 0.25j), lambda x: x * (0.5 + 0.25j), X)
case("conjugate", lambda s: s.op("conjugate", s["x"]), np.conj, X + 1j * Y)

FRAMES: dict[str, tuple[Any, Any]] = {"v3": (V3, 3), "v8": (V8, 8), "m24": (M24, (2, 4))}
for label, (data, slots) in FRAMES.items():
    at = {"inputs": {"x": encrypted(slots=slots)}}
    for shift in (1, -2, 5):
        case(
            f"roll-{label}-{shift}", lambda s, k=shift: s.roll(s["x"], k), lambda x, k=shift: np.roll(x, k), data, **at
        )
    case(f"sum-{label}", lambda s: s.op("sum", s["x"]), lambda x: np.array([x.sum()]), data, **at)
    case(f"mean-{label}", lambda s: s.op("mean", s["x"]), lambda x: np.array([x.mean()]), data, **at)
    case(f"sum-after-add-{label}", lambda s: s.op("sum", s.add(s["x"], 0.5)), lambda x: np.array([(x + 0.5).sum()]), data,
         **at)  # fmt: skip
M_IN = {"inputs": {"x": encrypted(slots=(2, 4))}}
case("roll-rows", lambda s: s.roll(s["x"], 1, dimension=-1), lambda x: np.roll(x, 1, -1), M24, **M_IN)
case("roll-columns", lambda s: s.roll(s["x"], 1, dimension=0), lambda x: np.roll(x, 1, 0), M24, **M_IN)
case("roll-three-rows", lambda s: s.roll(s["x"], 2, dimension=1), lambda x: np.roll(x, 2, 1), np.arange(9.0).reshape(3, 3) / 9,
     inputs={"x": encrypted(slots=(3, 3))})  # fmt: skip
case("mean-full", lambda s: s.op("mean", s["x"]), lambda x: np.array([x.mean()]), X)
case("roll-full-around", lambda s: s.roll(s["x"], S - 1), lambda x: np.roll(x, -1), X)
case(
    "variance",
    lambda s: s.op("mean", s.op("square", s.sub(s["x"], s.op("mean", s["x"])))),
    lambda x: np.array([x.var()]),
    V3,
    inputs={"x": encrypted(slots=3)},
)
case("slice-sum", lambda s: s.op("sum", s.op("slice", s["x"], start=3, stop=9)), lambda x: np.array([x[3:9].sum()]), X)
case("slice", lambda s: s.op("slice", s["x"], start=2, stop=5), lambda x: x[2:5], V8, inputs={"x": encrypted(slots=8)})
case("reshape", lambda s: s.roll(s.op("reshape", s["x"], shape=(2, 4)), 1, dimension=0), lambda x: np.roll(x.reshape(2, 4), 1, 0), V8,
     inputs={"x": encrypted(slots=8)})  # fmt: skip
for form, shape in (("linear", (5, 3)), ("linear", (8, 8)), ("right", (8, 2)), ("linear", (16, 16)), ("right", (3, 3))):
    matrix = np.cos(np.arange(shape[0] * shape[1])).reshape(shape) / 4
    length = shape[1] if form == "linear" else shape[0]
    case(
        f"matmul-{form}-{shape[0]}x{shape[1]}",
        lambda s, f=form, k=shape: s.op("matmul", s["x"], s.held("w", k), form=f),
        lambda x, m=matrix, f=form: m @ x if f == "linear" else x @ m,
        np.linspace(-1, 1, length),
        inputs={"x": encrypted(slots=length)},
        w=matrix,
    )
case(
    "dot-with-public",
    lambda s: s.op("matmul", s["x"], s.held("w", (3,)), form="linear"),
    lambda x: np.array([x @ V3]),
    V3 + 1,
    inputs={"x": encrypted(slots=3)},
    w=V3,
)
case("levels-declared", lambda s: s.mul(s.add(s["x"], s["y"]), s["y"]), lambda x, y: (x + y) * y, X, Y,
     inputs={"x": encrypted(level=1), "y": encrypted()})  # fmt: skip
case("assumed-bound", lambda s: s.op("square", s.op("assume_bound", s["x"], bound=1.0)), lambda x: x * x, X)


def product_of(s: Sem, count: int) -> Any:
    total = s["x"]
    for i in range(1, count):
        total = s.mul(total, s["y"] if i % 2 else s["z"])
    return total


case("product-of-six", lambda s: product_of(s, 6), lambda x, y, z: x * y**3 * z**2, X, Y, Z)


def filtered(s: Sem, taps: int) -> Any:
    total: Any = None
    for i in range(taps):
        term = s.mul(s.roll(s["x"], i), float(W[i]))
        total = term if total is None else s.add(total, term)
    return total


case("filter-of-twenty-taps", lambda s: filtered(s, 20), lambda x: sum(np.roll(x, i) * W[i] for i in range(20)), X)


def by_diagonals(s: Sem, count: int) -> Any:
    total: Any = None
    for i in range(count):
        term = s.mul(s.roll(s["x"], i - 5), s.held(f"d{i}", (S,)))
        total = term if total is None else s.add(total, term)
    return total


DIAGONALS = np.cos(np.arange(16 * S)).reshape(16, S) / 4
case(
    "matrix-by-diagonals",
    lambda s: by_diagonals(s, 16),
    lambda x: sum(DIAGONALS[i] * np.roll(x, i - 5) for i in range(16)),
    X,
    **{f"d{i}": DIAGONALS[i] for i in range(16)},
)
