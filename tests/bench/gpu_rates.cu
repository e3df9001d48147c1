// The instruction rate of the card, a ceiling of tests/bench/gpu.py: butterflies as the transforms make them, in registers alone. The mix of multiplies and
// additions is theirs, so whichever unit of the card they would wait for sets the rate.
#include "modarith.cuh"

// Eight words per thread, `rounds` levels of four butterflies each, reduced at each level. The result is stored, so that nothing is dropped.
extern "C" __global__ void __launch_bounds__(256)
butterflies(u64* out, u64 q, u64 w, u64 quotient, u32 rounds) {
  u64 x[8];
  REN_UNROLL
  for (int k = 0; k < 8; k++) x[k] = (blockIdx.x * blockDim.x + threadIdx.x + k) % q;
  for (u32 i = 0; i < rounds; i++) {
    REN_UNROLL
    for (int k = 0; k < 4; k++) {
      const u64 a = subtract_once(x[k], 2 * q), b = shoup_lazy(x[k + 4], w, quotient, q);
      x[k] = a + b;
      x[k + 4] = a - b + 2 * q;
    }
    const u64 first = x[0];  // other pairs at the next level
    REN_UNROLL
    for (int k = 0; k < 7; k++) x[k] = x[k + 1];
    x[7] = first;
  }
  u64 all = 0;
  REN_UNROLL
  for (int k = 0; k < 8; k++) all ^= x[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
