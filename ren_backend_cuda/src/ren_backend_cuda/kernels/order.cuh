// The order of values in the NTT domain (`ren.numtheory.roots.ntt_exponents`): bit-reversed, each block of 64 in addition transposed as 8 x 8.
#pragma once
#include "ren_device.cuh"

// Bit-reversed index -> stored position, and back (an involution). Identity below 64 points.
__device__ __forceinline__ u32 stored_position(u32 i, u32 n) {
  return n < 64 ? i : (i & ~63u) | ((i & 7) << 3) | ((i >> 3) & 7);
}

// Where the value at stored position i comes from under X -> X^g: bit-reversed index k holds the value at psi^(2 bitreverse(k) + 1). The position it goes to is
// that for g^-1.
__device__ __forceinline__ u32 automorphism_source(u32 i, u32 g, u32 log_n) {
  const u32 n = 1u << log_n;
  const u32 exponent = ((2 * (__brev(stored_position(i, n)) >> (32 - log_n)) + 1) * g) & (2 * n - 1);
  return stored_position(__brev(exponent >> 1) >> (32 - log_n), n);
}
