// One row of a base conversion: sum over i of digit_i F_i + last, modulo the target's q.
#pragma once
#include "modarith.cuh"

// digits: `terms` rows of n words, each below 2^61 (residues modulo other primes, or a small overflow count). constants: F_0 .. F_(terms-1), last, all
// residues modulo q. Result in [0, q). The sum is reduced every kSumTerms products, so any number of terms is exact.
struct Conversion {
  const u64* digits;
  const u64* constants;
  u32 terms;
  u32 n;

  // Coefficients at, at + step, .., `count` of them: constants are read once for all.
  template <int count, u32 step> __device__ __forceinline__ void values(u32 at, u64* out, const Modulus& m) const {
    Sum sum[count];
    const u64 last = __ldg(constants + terms);
    REN_UNROLL
    for (int j = 0; j < count; j++) sum[j] = {last, 0};
    const u64* row = digits + at;
    for (u32 i = 0; i < terms; i++) {
      const u64 factor = __ldg(constants + i);
      REN_UNROLL
      for (int j = 0; j < count; j++) add_product(sum[j], __ldg(row + j * step), factor);
      if (i % kSumTerms == kSumTerms - 1) {
        REN_UNROLL
        for (int j = 0; j < count; j++) sum[j] = {m.reduce(sum[j]), 0};
      }
      row += n;
    }
    REN_UNROLL
    for (int j = 0; j < count; j++) out[j] = m.reduce(sum[j]);
  }
  __device__ __forceinline__ u64 value(u32 at, const Modulus& m) const {
    u64 out;
    values<1, 0>(at, &out, m);
    return out;
  }
};

// Which rows digit d of a gadget is made of: limbs d alpha .. d alpha + count - 1.
struct Digit {
  u32 first, count;
  __device__ __forceinline__ bool owns(u32 limb) const { return limb - first < count; }
};
__device__ __forceinline__ Digit digit_of(u32 d, u32 alpha, u32 limbs) { return {d * alpha, min(alpha, limbs - d * alpha)}; }
