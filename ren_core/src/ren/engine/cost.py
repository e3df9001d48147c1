"""Work of units: counts that follow from parameters alone, the same on every backend.

`work_of` says what a unit does, row by row (a row is n residues modulo one q); `ren.engine.calibration` turns such counts into seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

#: Kinds of work, counted in rows. Each is what a kernel does to one row modulo one prime, the unit overhead excepted.
WORK: dict[str, str] = {
    "unit": "one kernel call",
    "forward": "forward transform of a row",
    "inverse": "inverse transform of a row",
    "convert": "one source row of a base conversion into one target row",
    "product": "row of modular products",
    "sum": "row of additions, subtractions or copies inside an element-wise program",
    "row": "row written by a kernel that does nothing else to it",
    "gather": "row permuted in the NTT domain",
    "scatter": "row permuted in the coefficient domain",
    "uniform": "row of uniform residues drawn",
    "ternary": "row of ternary coefficients drawn",
    "gaussian": "row of Gaussian coefficients drawn",
}

#: Rows of work of one unit: (kind, q) -> how many. q is 0 for work that does not depend on the modulus.
Work = dict[tuple[str, int], float]

_PRODUCTS = frozenset({"mul", "mac", "scale"})


@dataclass(frozen=True, slots=True)
class Cost:
    """units: kernel calls. transforms: rows through the NTT or its inverse. products: modular products outside transforms.
    words: 64-bit words read and written. seconds: predicted time, where the backend has a calibration."""

    units: int = 0
    transforms: int = 0
    products: int = 0
    words: int = 0
    seconds: float | None = None

    def __add__(self, other: Cost) -> Cost:
        times = [t for t in (self.seconds, other.seconds) if t is not None]
        return Cost(
            self.units + other.units,
            self.transforms + other.transforms,
            self.products + other.products,
            self.words + other.words,
            sum(times) if times else None,
        )

    def __str__(self) -> str:
        text = f"{self.units} units, {self.transforms} row transforms, {self.products} products, {8 * self.words} bytes moved"
        return text if self.seconds is None else f"{text}, predicted {self.seconds * 1e6:.4g} us"


class _Rows:
    """Collects rows of work."""

    def __init__(self) -> None:
        self.work: Work = {("unit", 0): 1.0}

    def add(self, kind: str, moduli: Iterable[int], times: float = 1.0) -> None:
        for q in moduli:
            self.work[kind, q] = self.work.get((kind, q), 0.0) + times


def work_of(unit: ExecUnit) -> Work:
    """What one unit does. Transforms are those of the kernel's definition (`ren.ops.KERNELS`), which no backend does more of."""
    rows = _Rows()
    moduli, p = unit.ring.moduli, unit.params
    match unit.kernel:
        case "ntt":
            rows.add("forward", moduli)
        case "intt":
            rows.add("inverse", moduli)
        case "elementwise":
            products = sum(i[0] in _PRODUCTS for i in p[2])
            rows.add("product", moduli, products)
            rows.add("sum", (0,), len(moduli) * (len(p[2]) - products))
            rows.add("row", (0,), len(moduli) * (len(unit.inputs) + len(unit.outputs)))
        case "automorphism":
            rows.add("gather" if p[1] is Domain.NTT else "scatter", (0,), len(moduli))
        case "mod_down":
            _mod_down(rows, moduli, *p)
        case "basis_extend":
            rows.add("convert", p[1], len(moduli))
            rows.add("row", (0,), len(moduli) + len(p[1]))
        case "decompose":
            _decompose(rows, moduli, *p[:3])
        case "key_switch":
            wide = moduli + tuple(p[1])
            rows.add("product", wide, 2 * _decompose(rows, moduli, *p[:3]))
        case "gadget_product":
            rows.add("product", moduli, 2 * p[0])
        case "sample":
            rows.add(p[0], moduli)
        case _:
            rows.add("row", (0,), len(moduli))
    return rows.work


def _mod_down(rows: _Rows, moduli: tuple[int, ...], k: int, z_limbs: int, domain: Domain) -> None:
    kept, dropped = moduli[:-k], moduli[-k:]
    rows.add("convert", kept, k)
    shared = z_limbs - len(kept) if len(kept) < z_limbs < len(moduli) else 0
    rows.add("convert", dropped[:shared], k - shared)
    rows.add("product", kept, 1)
    rows.add("row", (0,), z_limbs)
    if domain is Domain.NTT:
        rows.add("inverse", dropped)
        rows.add("forward", kept)


def _decompose(rows: _Rows, moduli: tuple[int, ...], alpha: int, special: tuple[int, ...], domain: Domain) -> int:
    """Adds the rows of a decomposition; returns the number of digits."""
    wide = moduli + tuple(special)
    starts = range(0, len(moduli), alpha)
    for start in starts:
        own = moduli[start : start + alpha]
        targets = wide[:start] + wide[min(start + alpha, len(moduli)) :]
        rows.add("convert", targets, len(own))
        # An operand in the NTT domain is inverted once and gives its own limbs back.
        rows.add("forward", targets if domain is Domain.NTT else wide)
    if domain is Domain.NTT:
        rows.add("inverse", moduli)
    return len(starts)


def transforms_of(work: Work) -> int:
    """Rows through the NTT or its inverse."""
    return int(sum(count for (kind, _), count in work.items() if kind in ("forward", "inverse")))


def unit_cost(unit: ExecUnit) -> Cost:
    """The work of one unit in four numbers."""
    work = work_of(unit)
    words = sum(o.words for o in (*unit.inputs, *unit.scalars, *unit.outputs))
    rows = sum(count for (kind, _), count in work.items() if kind in ("product", "convert"))
    return Cost(1, transforms_of(work), int(unit.ring.n * rows), words)
