"""The vocabulary of the polynomial engine: graph operations, and the kernels they are scheduled into.

Two tables, both data. `OPS` describes nodes of the lazy graph (what a user's expression is made of); `KERNELS` describes
what a backend executes. The scheduler turns the first into the second. Every kernel is defined to the last bit, so that all
backends agree; the reference backend is the executable form of these definitions. Both tables generate
docs/reference/operations.md.

Layout contract (all backends): a polynomial value is `limbs` rows of n unsigned 64-bit words, row i holding canonical residues
in [0, q_i) in coefficient order (COEFF) or in the order of `ren.numtheory.roots.ntt_exponents` (NTT). Rows are contiguous,
so "limbs i..j of a value" is an offset, never a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


# Members are keys of the scheduler's tables; `Enum.__hash__` is Python code, the hash of the text is not.
class Domain(StrEnum):
    __hash__ = str.__hash__

    COEFF = "coeff"
    NTT = "ntt"


class Kind(StrEnum):
    """What a value is made of; fixes its size in 64-bit words."""

    __hash__ = str.__hash__

    POLY = "poly"  # limbs * n words
    FLOAT = "float"  # n float64 words, then one integer word: how many coefficients did not fit (LIFT); FROM_FLOAT ignores it
    DIGITS = "digits"  # digits * limbs * n words: [digit][limb][n], NTT domain
    KEY = "key"  # digits * 2 * limbs * n words: [digit][component b, a][limb][n], NTT domain


class Op(StrEnum):
    __hash__ = str.__hash__

    # leaves
    BUFFER = "buffer"
    CONST = "const"
    SAMPLE = "sample"
    # arithmetic
    ADD = "add"
    SUBTRACT = "subtract"
    NEGATE = "negate"
    MULTIPLY = "multiply"
    # structure
    NTT = "ntt"
    INTT = "intt"
    AUTOMORPHISM = "automorphism"
    LIMBS = "limbs"
    COPY = "copy"
    # change of modulus
    MOD_DOWN = "mod_down"
    BASIS_EXTEND = "basis_extend"
    # key switching
    DECOMPOSE = "decompose"
    GADGET_PRODUCT = "gadget_product"
    PART = "part"
    # host boundary
    FROM_FLOAT = "from_float"
    LIFT = "lift"


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One row of the graph vocabulary. `elementwise` ops are fused; `linear` ones may run in either domain."""

    op: Op
    args: str
    params: str
    domain: str
    meaning: str
    elementwise: bool = False
    linear: bool = False


OPS: dict[Op, OpInfo] = {
    r.op: r
    for r in (
        OpInfo(Op.BUFFER, "", "", "as stored", "realized data"),
        OpInfo(
            Op.CONST,
            "",
            "(residue of each limb, ...)",
            "any",
            "the constant polynomial c; in the NTT domain every value is c",
        ),
        OpInfo(
            Op.SAMPLE,
            "",
            "(distribution, argument, stream)",
            "coeff; uniform: as asked",
            "random polynomial of a 32-byte seed (ren.numtheory.sampling)",
        ),
        OpInfo(Op.ADD, "x, y", "", "that of x and y", "x + y", True, True),
        OpInfo(Op.SUBTRACT, "x, y", "", "that of x and y", "x - y", True, True),
        OpInfo(Op.NEGATE, "x", "", "that of x", "-x", True, True),
        OpInfo(Op.MULTIPLY, "x, y", "", "ntt; any if x or y is CONST", "x * y", True),
        OpInfo(Op.NTT, "x", "", "coeff -> ntt", "negacyclic number-theoretic transform"),
        OpInfo(Op.INTT, "x", "", "ntt -> coeff", "its inverse"),
        OpInfo(Op.AUTOMORPHISM, "x", "(g,)", "that of x", "x(X^g), g odd, reduced to [1, 2n)", False, True),
        OpInfo(Op.LIMBS, "x", "(start, stop)", "that of x", "the residues modulo q_start..q_(stop-1): a view"),
        OpInfo(Op.COPY, "x", "", "that of x", "x in memory of its own"),
        OpInfo(
            Op.MOD_DOWN,
            "x [, z]",
            "(k,)",
            "that of x (and z)",
            "drop the last k limbs with division: y = x + P z, out = (y - c) D^-1, D the product of the dropped moduli, P the product of the moduli of x that z "
            "lacks (z must keep at least the kept limbs), c the centred conversion of the dropped limbs of y. k = 1 is the exact rescale round(y / q_last). "
            "Where z has some of the dropped limbs, P is divided away first, then those: the result of MOD_DOWN twice, c = c_1 + P c_2",
        ),
        OpInfo(
            Op.BASIS_EXTEND,
            "x",
            "(mode, (new moduli...))",
            "coeff",
            "append limbs. y_i = x_i (Q/q_i)^-1 mod q_i. mode 'approximate': sum y_i (Q/q_i) with y_i in [0, q_i); 'centred': with |y_i| <= (q_i-1)/2; "
            "'exact': the approximate sum minus v Q, v = (2^55 + sum f_i) >> 56, f_i = (y_i R_i) >> (b_i + 7), R_i = floor(2^(63+b_i) / q_i), b_i the bit length of q_i",
        ),
        OpInfo(
            Op.DECOMPOSE,
            "x",
            "(alpha, (special moduli...))",
            "any -> ntt",
            "gadget decomposition: digit d is the centred conversion of limbs d*alpha .. (d+1)*alpha-1 of x to all limbs of x and the special moduli",
        ),
        OpInfo(
            Op.GADGET_PRODUCT,
            "digits, key",
            "(index of each limb in the key, ...)",
            "ntt",
            "component c = sum over d of digit_d * key[d][c]; taken apart with PART(0) = b and PART(1) = a",
        ),
        OpInfo(Op.PART, "gadget product", "(0 or 1,)", "ntt", "one component"),
        OpInfo(
            Op.FROM_FLOAT,
            "float",
            "",
            "-> coeff",
            "residues of n integer-valued doubles, exact for every finite double",
        ),
        OpInfo(
            Op.LIFT,
            "x",
            "",
            "coeff -> float",
            "coefficients as correctly rounded doubles: v = the centred value modulo q_0 q_1 (q_0 alone for one limb); with three limbs or more the last word counts the "
            "coefficients whose v differs from x modulo q_2 (they do not fit), else it is 0",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One kernel a backend can declare. Operand order in an ExecUnit: inputs, scalars, outputs, scratch."""

    name: str
    inputs: str
    outputs: str
    params: str
    meaning: str


#: Instructions of an `elementwise` program. Registers: inputs first, then one per instruction. s indexes the scalars.
#: ("add", a, b) ("sub", a, b) ("neg", a) ("mul", a, b) ("mac", a, b, c): a*b + c   ("scale", a, s): a * scalar_s
#: ("addc", a, s): a + scalar_s (coefficient domain: only coefficient 0) ("subc", a, s): a - scalar_s ("csub", a, s): scalar_s - a
#: ("const", s): the constant polynomial scalar_s
ELEMENTWISE_OPCODES = ("add", "sub", "neg", "mul", "mac", "scale", "addc", "subc", "csub", "const")

KERNELS: dict[str, KernelInfo] = {
    k.name: k
    for k in (
        KernelInfo(
            "elementwise",
            "polys of the unit's ring",
            "polys",
            "(inputs, scalars, instructions, output registers, domain)",
            "a fused straight-line program; a scalar operand is one canonical residue per limb; each output may be the same memory as one input (all inputs count as read "
            "before any output is written)",
        ),
        KernelInfo("ntt", "x", "out", "()", "forward transform; out may be x"),
        KernelInfo("intt", "x", "out", "()", "inverse transform; out may be x"),
        KernelInfo("automorphism", "x", "out", "(g, domain)", "out must not overlap x"),
        KernelInfo("copy", "x", "out", "()", "row copy"),
        KernelInfo(
            "mod_down",
            "x [, z]",
            "out",
            "(k, z limbs or 0, domain)",
            "ring = that of x; see Op.MOD_DOWN; out must not overlap inputs. In the NTT domain: the result of the coefficient domain, transformed",
        ),
        KernelInfo("basis_extend", "x", "out", "(mode, new moduli)", "out holds the old rows, then the new ones"),
        KernelInfo(
            "decompose",
            "x",
            "digits",
            "(alpha, special moduli, domain of x)",
            "ring = that of x; each digit has the limbs of x, then the special ones; the last digit may be narrower than alpha",
        ),
        KernelInfo(
            "gadget_product",
            "digits, key",
            "b, a",
            "(digits, key limbs, index of each limb in the key)",
            "ring = that of the digits; the key may have more digits, which are not used",
        ),
        KernelInfo(
            "key_switch",
            "x, key",
            "b, a",
            "(alpha, special moduli, domain of x, key limbs, index of each limb in the key)",
            "decompose and gadget_product in one, limb by limb, so that the digits never leave the cache",
        ),
        KernelInfo(
            "sample",
            "seed (4 words)",
            "out",
            "(distribution, argument, stream)",
            "see ren.numtheory.sampling; the seed's 32 bytes are read as little-endian words",
        ),
        KernelInfo("from_float", "float", "out", "()", "see Op.FROM_FLOAT"),
        KernelInfo("lift", "x", "float", "()", "see Op.LIFT"),
    )
}
