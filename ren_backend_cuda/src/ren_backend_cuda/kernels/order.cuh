// Orders: of values in the NTT domain (`ren.numtheory.roots.ntt_exponents`), bit-reversed, each block of 64 in addition transposed as 8 x 8; and of twiddles.
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

// Rings of two kernels (ntt.cu): n = 2^log_n is cut into columns of 2^column_levels words and rows of the rest.
__device__ constexpr int column_levels(int log_n) { return log_n / 2; }
constexpr u32 kTwoKernels = 12;  // log2 of the smallest such degree (LARGE in lower_transform.py)

// Where the twiddle of node i stands in the table. In the last four levels of a row each thread of a transform needs the neighbouring nodes of a group of 16 words,
// so those of a level are stored with the groups side by side: neighbouring threads then read neighbouring words. Everything else is in natural order.
__device__ __forceinline__ u32 row_twiddle(u32 i, u32 log_n) {
  if (log_n < kTwoKernels || i == 0) return i;
  const int s1 = column_levels(log_n), s2 = log_n - s1, s = 31 - __clz((int)i) - s1;  // level of the node in its row
  if (s <= s2 - 4) return i;
  const u32 c = 1u << (s - s2 + 4), j = i & ((1u << s) - 1);
  return i - j + (j % c << (s2 - 4)) + j / c;
}
