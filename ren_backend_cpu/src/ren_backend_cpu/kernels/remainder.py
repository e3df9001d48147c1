"""The difference of two one-limb polynomials as integers, and its transform in other limbs: what an encryption takes off before it drops a prime.

Centred values are integers below 2^49 in absolute value: a word, and a double without rounding.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.arith import FloatOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.emit import I64, Em, Value, const, kernel, load
from ren_backend_cpu.kernels.host_float import word_residue
from ren_backend_cpu.kernels.jit import entry
from ren_backend_cpu.kernels.ntt_call import ntt_forward

#: The bits of 1.5 * 2^52: a word below 2^51 in absolute value added to them is a double that much above it.
_MAGIC, _MAGIC_BITS = 6755399441055744.0, 0x4338000000000000


def _emit_difference(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """out = centred x - centred y, residues of the modulus of `record`, as signed words."""
    record, x, y, out = pointers
    b = em.b
    q, half = em.splat_word(record, limb.Q), em.splat_word(record, limb.HALF)

    def centred(p: Value, i: Value) -> Value:
        v = em.vload(p, i, I64, 8)
        return b.sub(v, b.and_(q, b.sext(b.icmp_signed(">", v, half), v.type)))

    with em.vectors(integers[0], 8, 2) as indices:
        for i in indices:
            em.vstore(b.sub(centred(x, i), centred(y, i)), out, i, I64)


def _emit_residues(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    """Residues of signed words below 2^50 in absolute value."""
    values, out = pointers
    em, b = ops.em, ops.b
    with em.vectors(integers[0], ops.lanes, 2 if ops.lanes > 1 else 1) as indices:
        for i in indices:
            v = em.vload(values, i, I64, ops.lanes)
            if isinstance(ops, FloatOps):
                bits = b.add(v, const(v.type, _MAGIC_BITS))
                x = b.fsub(b.bitcast(bits, ops.ty), const(ops.ty, _MAGIC))
                ops.store(ops.near(ops.near(x)), out, i)  # once leaves up to 1.2q for the narrowest moduli
                continue
            negative = b.icmp_signed("<", v, const(v.type, 0))
            r = word_residue(ops, b.select(negative, b.sub(const(v.type, 0), v), v))
            ops.store(b.select(negative, ops.neg(r), r), out, i)


_difference = kernel(4, 1, _emit_difference)
_residues = limb_kernel(2, 1, _emit_residues)


@entry
def remainder_difference(row):
    """The row of `remainder_ntt`: the integers."""
    _difference(row[3], row[0], row[1], row[2], row[6])


@entry
def remainder_ntt(row):
    """x, y, integers (a row), record of their modulus, out, ring, n, and first and last limb: out = NTT(centred x - centred y)"""
    integers, out, ring, n = row[2], row[4], row[5], row[6]
    for j in range(row[7], row[8]):
        record, target = load(ring, j), out + 8 * j * n
        _residues(record, integers, target, n)
        ntt_forward(record, target, target)
