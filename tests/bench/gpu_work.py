"""What a plan has to do at least, as bytes and as instructions: the two limits that tests/bench/gpu.py holds times against.

Instructions per residue are those of machine code for compute capability 9.0, counted in a disassembly of a first version of these kernels (one figure per
kind of work, loads and addresses included for butterflies). They are a model of each launch, not a count of each kernel as it is today: expect 10 to 20 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

#: One butterfly of a whole transform, and one in registers alone as gpu_rates.cu measures it.
FORWARD, INVERSE, IN_REGISTERS = 30.4, 32.4, 27.9
#: A product added to a 128-bit sum, the reduction of a sum, a product modulo q, a sum modulo q, a residue loaded and stored at a computed place.
PRODUCT_SUM, REDUCTION, BARRETT, SUM, MOVE = 7.9, 17.0, 38.0, 6.0, 10.0
#: 64 bits of key stream; one threshold of the Gaussian comparison.
CHACHA, THRESHOLD = 125.0, 3.0
_ELEMENTWISE = {"mul": BARRETT, "scale": BARRETT, "mac": PRODUCT_SUM + REDUCTION}


def least_bytes(units: Iterable[ExecUnit]) -> int:
    """Bytes of every operand that a plan reads before it writes it, and of every result that it does not read again."""
    written: dict[tuple[int, int], int] = {}
    read: dict[tuple[int, int], int] = {}
    results: dict[tuple[int, int], int] = {}
    for unit in units:
        for o in (*unit.inputs, *unit.scalars):
            place = o.slot, o.offset
            if place not in written:
                read[place] = max(read.get(place, 0), o.words)
            results.pop(place, None)
        for o in unit.outputs:
            written[o.slot, o.offset] = results[o.slot, o.offset] = o.words
    return 8 * (sum(read.values()) + sum(results.values()))


def instructions(units: Iterable[ExecUnit]) -> float:
    """Instructions of all threads together."""
    return sum(_instructions(u) for u in units)


def _butterflies(n: int) -> float:
    return n / 2 * log2(n)


def _instructions(unit: ExecUnit) -> float:
    n, limbs, p = unit.ring.n, unit.ring.limbs, unit.params
    forward, inverse = FORWARD * _butterflies(n), INVERSE * _butterflies(n)
    if unit.kernel == "ntt":
        return limbs * forward
    if unit.kernel == "intt":
        return limbs * inverse
    if unit.kernel == "mod_down":
        k, z_limbs, domain = p
        kept = limbs - k
        each = k * PRODUCT_SUM + REDUCTION + (1 + bool(z_limbs)) * PRODUCT_SUM + REDUCTION
        return (k * inverse + kept * forward if domain is Domain.NTT else 0) + kept * n * each
    if unit.kernel in ("decompose", "key_switch"):
        alpha, special, domain = p[:3]
        digits, wide = -(-limbs // alpha), limbs + len(special)
        known = limbs if domain is Domain.NTT else 0  # targets whose transform is there
        made = digits * wide - known
        work = (limbs * inverse if known else 0) + made * (forward + n * (min(alpha, limbs) * PRODUCT_SUM + REDUCTION))
        return work + (_products(n, wide, digits) if unit.kernel == "key_switch" else 0)
    if unit.kernel == "gadget_product":
        return _products(n, limbs, p[0])
    if unit.kernel == "elementwise":
        return limbs * n * sum(_ELEMENTWISE.get(opcode, SUM) for opcode, *_ in p[2])
    if unit.kernel == "sample":
        draws = limbs if p[0] == "uniform" else 1
        return n * (draws * CHACHA + limbs * MOVE + (THRESHOLD * 10 * float(p[1]) if p[0] == "gaussian" else 0))
    if unit.kernel == "basis_extend":
        return len(p[1]) * n * (limbs * PRODUCT_SUM + REDUCTION)
    return limbs * n * MOVE


def _products(n: int, limbs: int, digits: int) -> float:
    """Both components of the products of digits and a key."""
    return limbs * n * 2 * (digits * PRODUCT_SUM + REDUCTION)
