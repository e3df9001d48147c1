// Arithmetic modulo one prime q < 2^61, 64-bit words. Each function states its input and output range.
#pragma once
#include "arguments.cuh"

// x in [0, 2m) -> [0, m). The subtraction wraps above x when x < m, so min picks the right one.
__device__ __forceinline__ u64 subtract_once(u64 x, u64 m) { return min(x, x - m); }

// Any y, w in [0, q), ws = floor(w 2^64 / q)  ->  y w mod q in [0, 2q).
__device__ __forceinline__ u64 shoup_lazy(u64 y, u64 w, u64 ws, u64 q) { return y * w - __umul64hi(y, ws) * q; }

// a, b in [0, q)  ->  [0, q).
__device__ __forceinline__ u64 add_mod(u64 a, u64 b, u64 q) { return subtract_once(a + b, q); }
__device__ __forceinline__ u64 sub_mod(u64 a, u64 b, u64 q) { return min(a - b, a - b + q); }
__device__ __forceinline__ u64 negate_mod(u64 a, u64 q) { return a == 0 ? 0 : q - a; }

// What a kernel knows of one limb: a row of the ring's table (`tables.py` writes it).
struct Limb {
  u64 q;
  u64 bits;              // bit length of q
  u64 barrett;           // floor(4^bits / q) << (63 - bits)
  u64 inv64, frac64;     // floor(2^64 / q), and floor((2^64 mod q) 2^64 / q): the quotient of r64
  u64 r64;               // 2^64 mod q
  u64 forward, inverse;  // addresses of the twiddle pairs (w, floor(w 2^64 / q)), one per node
};

// a, b in [0, q)  ->  a b mod q in [0, q). The truncated quotient is at most 2 too small: two conditional subtractions.
__device__ __forceinline__ u64 multiply_mod(u64 a, u64 b, u64 q, u64 barrett, int bits) {
  const u64 lo = a * b, hi = __umul64hi(a, b);
  const u64 top = (hi << (65 - bits)) | (lo >> (bits - 1));  // 2 <= bits <= 61 keeps both shifts inside 1..63
  const u64 r = lo - __umul64hi(top, barrett) * q;
  return subtract_once(subtract_once(r, 2 * q), q);
}

// Any x  ->  x mod q in [0, q). floor(x inv64 / 2^64) is the quotient or one less.
__device__ __forceinline__ u64 reduce_word(u64 x, u64 q, u64 inv64) { return subtract_once(x - __umul64hi(x, inv64) * q, q); }

// A sum of products in 128 bits. Products of residues are below 2^122, so kSumTerms of them, one reduced sum and a word fit.
constexpr int kSumTerms = 32;
struct Sum {
  u64 lo, hi;
};
__device__ __forceinline__ void add_word(Sum& s, u64 x) {
  s.lo += x;
  s.hi += s.lo < x;
}
__device__ __forceinline__ void add_product(Sum& s, u64 a, u64 b) {
  const u64 lo = a * b;
  s.lo += lo;
  s.hi += __umul64hi(a, b) + (s.lo < lo);
}
// Any sum  ->  [0, q). hi 2^64 mod q and lo mod q are each below 2q.
__device__ __forceinline__ u64 reduce_sum(const Sum& s, u64 q, u64 r64, u64 frac64, u64 inv64) {
  const u64 r = shoup_lazy(s.hi, r64, frac64, q) + (s.lo - __umul64hi(s.lo, inv64) * q);
  return subtract_once(subtract_once(r, 2 * q), q);
}

// The arithmetic of one limb with its constants in registers.
struct Modulus {
  u64 q, barrett, inv64, frac64, r64;
  int bits;
  __device__ __forceinline__ u64 multiply(u64 a, u64 b) const { return multiply_mod(a, b, q, barrett, bits); }
  __device__ __forceinline__ u64 reduce(u64 x) const { return reduce_word(x, q, inv64); }
  __device__ __forceinline__ u64 reduce(const Sum& s) const { return reduce_sum(s, q, r64, frac64, inv64); }
};
__device__ __forceinline__ Modulus modulus_of(const Limb* limb) {
  return {__ldg(&limb->q), __ldg(&limb->barrett), __ldg(&limb->inv64), __ldg(&limb->frac64), __ldg(&limb->r64), (int)__ldg(&limb->bits)};
}

// y in [0, q)  ->  (y + floor(q/2)) mod q: a centred digit as an unsigned one. The conversion subtracts the shift again.
__device__ __forceinline__ u64 shift_centre(u64 y, u64 q) { return add_mod(y, q / 2, q); }
