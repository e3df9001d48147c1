// The order of values in the NTT domain (`ren.numtheory.roots.ntt_exponents`): bit-reversed, each block of 64 in addition transposed as 8 x 8.
#pragma once
#include "ren_device.cuh"

// Bit-reversed index -> stored position, and back (an involution). Identity below 64 points.
__device__ __forceinline__ u32 stored_position(u32 i, u32 n) {
  return n < 64 ? i : (i & ~63u) | ((i & 7) << 3) | ((i >> 3) & 7);
}
