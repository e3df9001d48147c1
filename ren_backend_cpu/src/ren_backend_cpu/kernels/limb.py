"""The per-limb record: everything a kernel needs to know about one (n, q), as 64 words at a fixed address.

`tables.LimbTable` fills it in; emitted code and numba code read it. A ring is an int64 array of such addresses, so a fused
kernel picks a limb with `load(ring, j)` and passes that one address on.
"""

from __future__ import annotations

WORDS = 64

# -- constants of q (uint64 unless noted) --------------------------------------------------------------------------------
Q = 0
Q2 = 1  # 2q
Q4 = 2  # 4q
HALF = 3  # floor(q / 2)
NEG52 = 4  # 2^52 - q
INV52 = 5  # floor(2^52 / q)
FRAC52 = 6  # floor((2^52 mod q) 2^52 / q)
QINV52 = 7  # q^-1 mod 2^52
BARRETT52_RIGHT = 8  # k - 1, k the bit length of q
BARRETT52_LEFT = 9  # 53 - k
BARRETT52 = 10  # floor(2^(51 + k) / q)
R52 = 11  # 2^52 mod q
R52_SHOUP = 12  # floor(R52 2^52 / q)
QINV64 = 13  # q^-1 mod 2^64
INV64 = 14  # floor(2^64 / q)
FRAC64 = 15  # floor((2^64 mod q) 2^64 / q)
BARRETT64_RIGHT = 16  # k - 2
BARRETT64_LEFT = 17  # 66 - k
BARRETT64 = 18  # floor(2^(62 + k) / q)
R64 = 19  # 2^64 mod q
R64_SHOUP = 20  # floor(R64 2^64 / q)
QF = 21  # double: q
QF_INV = 22  # double: 1 / q
QF_UNIT = 23  # double: 2^(52 + k), the unit in whose last place the float path sums products

# -- transform ------------------------------------------------------------------------------------------------------------
PATH = 24  # arithmetic path, see below
N = 25
LAZY_OFFSET = 26  # (2 log2 n + 3) q: added once by the ultra-lazy forward transform
PASSES = 27  # radix plan: count | log2 radix of pass k << (4 + 4 k)
FORWARD = 28  # address: twiddles by node, entries of the path's width
FORWARD_TAIL = 29  # address: packed twiddles of the last six stages
INVERSE = 30
INVERSE_TAIL = 31
SCALE = 32  # address of the default last-stage pair of the inverse: entries of n^-1 and n^-1 w_1^-1
FORWARD_FN = 33  # address of the path's forward transform (kernels.ntt_call)
INVERSE_FN = 34
LEVEL_PAIRS = 36  # 6 words: Shoup pairs of w_1, w_2, w_3 (one-vector-per-level tails)
LEVEL_PAIRS_INVERSE = 42  # 6 words

# -- arithmetic paths, slowest first ----------------------------------------------------------------------------------------
SCALAR = 0  # one word at a time through 128-bit products: any q < 2^61, any n, any CPU
VECTOR64 = 1  # 64-bit vectors: q < 2^61, AVX-512DQ
FLOAT_STRICT = 2  # float64 with FMA: q < 2^50
FLOAT_LAZY = 3  # float64 with FMA, no reductions in the forward transform: q < 2^47
IFMA_STRICT = 4  # 52-bit multiply-add: q < 2^50
IFMA_LAZY = 5  # 52-bit multiply-add, ultra-lazy: q < 2^45.9

PATH_NAMES = ("scalar", "vector64", "float-strict", "float-lazy", "ifma-strict", "ifma-lazy")
