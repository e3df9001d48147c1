// What every other kernel rests on, on few words: 64-bit products, exact doubles, shared memory and barriers. `self_check.py` knows the answers.
#include "ren_device.cuh"

// Slots of the block: x, y, out. out[i] = low word of x y; out[n + i] = high word; out[2n + i] = bits of the rounding error of the
// product of the low halves as doubles; out[3n + i] = sum of all x. One block of n threads, n a power of two; dynamic shared memory: n words.
extern "C" __global__ void __launch_bounds__(256)
self_check(const u64* block) {
  REN_DYNAMIC_SHARED(u64, sums);
  const u32 i = threadIdx.x, n = blockDim.x;
  const u64 x = slot<const u64>(block, 0)[i], y = slot<const u64>(block, 1)[i];
  u64* out = slot<u64>(block, 2);
  out[i] = x * y;
  out[n + i] = __umul64hi(x, y);
  const double a = (double)(x & 0xffffffffull), b = (double)(y >> 11);
  out[2 * n + i] = (u64)__double_as_longlong(__fma_rn(a, b, -__dmul_rn(a, b)));
  sums[i] = x;
  for (u32 half = n / 2; half; half /= 2) {
    __syncthreads();
    if (i < half) sums[i] += sums[i + half];
  }
  __syncthreads();
  out[3 * n + i] = sums[0];
}
