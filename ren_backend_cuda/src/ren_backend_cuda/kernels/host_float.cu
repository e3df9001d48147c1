// Between residues and doubles, at the border of encoding and decoding. Grid: x covers the n coefficients, z = batch of equal units.
#include "modarith.cuh"

constexpr int kPiece = 32;  // powers of two are cut at multiples of this exponent

// Operands: float (n doubles that are integers), out. Grid y = limbs. powers: 2^(32 j) mod q for j = 0..31, per limb.
// v = (-1)^s mantissa 2^e with mantissa < 2^53 and e <= 971: three products of residues, exact.
extern "C" __global__ void __launch_bounds__(256)
from_float(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* powers, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  const u64 bits = __ldg(operand<const u64>(block, at) + i);
  const int biased = (int)(bits >> 52 & 0x7ff);
  u64 mantissa = bits & ((1ull << 52) - 1);
  if (biased) mantissa |= 1ull << 52;
  int e = (biased ? biased : 1) - 1075;
  if (e < 0) {  // an integer: the bits below the point are zero
    mantissa = e > -64 ? mantissa >> -e : 0;
    e = 0;
  }
  const u64 high = __ldg(powers + (size_t)blockIdx.y * kPiece + e / kPiece), low = m.reduce(1ull << (e % kPiece));
  const u64 r = m.multiply(m.multiply(m.reduce(mantissa), high), low);
  operand<u64>(block, at + 1)[(size_t)blockIdx.y * n + i] = bits >> 63 ? negate_mod(r, m.q) : r;
}

// x 2^shift for x < 2^64, correctly rounded as (double)x is; shift <= 64, so nothing overflows.
__device__ __forceinline__ u64 scaled_bits(u64 x, u32 shift, bool negative) {
  const double d = (double)x;  // nearest, ties to even
  u64 bits = (u64)__double_as_longlong(d);
  if (x) bits += (u64)shift << 52;
  return bits | (u64)negative << 63;
}

// The double nearest to (-1)^s (hi 2^64 + lo), ties to even: the top 64 bits, the last one standing for all below it.
__device__ __forceinline__ u64 double_bits(u64 hi, u64 lo, bool negative) {
  if (hi == 0) return scaled_bits(lo, 0, negative && lo);
  const u32 up = (u32)__clzll((long long)hi);
  const u64 top = up ? (hi << up) | (lo >> (64 - up)) : hi, rest = up ? lo << up : lo;
  return scaled_bits(top | (rest != 0), 64 - up, negative);
}

// What lift knows of the first limbs.
struct Lift {
  u64 inverse;       // q_0^-1 mod q_1
  u64 modulus[2];    // q_0 q_1, low word first
  u64 half[2];       // floor(q_0 q_1 / 2)
  u64 q0_mod_q2, modulus_mod_q2;
};

// Operands: x, float. One limb: v = the centred residue. Two or more: v = x_0 + q_0 ((x_1 - x_0) q_0^-1 mod q_1), centred modulo q_0 q_1; with three or more the word
// after the doubles, which is zero before, counts the coefficients with v != x_2 modulo q_2. Range: q_0 q_1 < 2^122.
extern "C" __global__ void __launch_bounds__(256)
lift(const u64* block, u32 first, u32 stride, const Limb* ring, const Lift* constants, u32 limbs, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const u64* x = operand<const u64>(block, at) + i;
  u64* out = operand<u64>(block, at + 1);
  const u64 q0 = __ldg(&ring[0].q), x0 = __ldg(x);
  if (limbs == 1) {
    const bool negative = x0 > q0 / 2;
    out[i] = double_bits(0, negative ? q0 - x0 : x0, negative);
    return;
  }
  const Modulus m1 = modulus_of(ring + 1);
  const u64 x1 = __ldg(x + n);
  const u64 k = m1.multiply(sub_mod(x1, m1.reduce(x0), m1.q), __ldg(&constants->inverse));
  Sum v = {x0, 0};
  add_product(v, k, q0);
  const u64 half_lo = __ldg(&constants->half[0]), half_hi = __ldg(&constants->half[1]);
  const bool negative = v.hi > half_hi || (v.hi == half_hi && v.lo > half_lo);
  u64 lo = v.lo, hi = v.hi;
  if (negative) {
    const u64 q_lo = __ldg(&constants->modulus[0]), q_hi = __ldg(&constants->modulus[1]);
    lo = q_lo - v.lo;
    hi = q_hi - v.hi - (q_lo < v.lo);
  }
  out[i] = double_bits(hi, lo, negative);
  if (limbs == 2) return;
  const Modulus m2 = modulus_of(ring + 2);
  u64 r = add_mod(m2.reduce(x0), m2.multiply(m2.reduce(k), __ldg(&constants->q0_mod_q2)), m2.q);
  if (negative) r = sub_mod(r, __ldg(&constants->modulus_mod_q2), m2.q);
  if (r != __ldg(x + 2 * (size_t)n)) atomicAdd(out + n, 1ull);
}

// Operands: x, float: nothing counted yet. One thread.
extern "C" __global__ void __launch_bounds__(32)
clear_count(const u64* block, u32 first, u32 stride, u32 n) {
  if (threadIdx.x == 0) operand<u64>(block, first + blockIdx.z * stride + 1)[n] = 0;
}
