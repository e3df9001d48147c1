// Instruction rates of the card, the ceilings of tests/bench/gpu.py. Each thread runs `rounds` times eight independent chains, so that latency is
// hidden; the result is stored, so that nothing is dropped.
#include "ren_device.cuh"

// 32 x 32 + 64 -> 64 bits: the instruction that 64-bit modular products are made of.
extern "C" __global__ void __launch_bounds__(256)
wide_multiplies(u64* out, u32 rounds) {
  u64 sum[8];
  u32 x = threadIdx.x | 1, y = blockIdx.x | 1;
  for (u32 k = 0; k < 8; k++) sum[k] = k + x;
  for (u32 i = 0; i < rounds; i++) {
    REN_UNROLL
    for (int k = 0; k < 8; k++) sum[k] = (u64)(u32)sum[k] * y + sum[k];
  }
  u64 all = 0;
  REN_UNROLL
  for (int k = 0; k < 8; k++) all ^= sum[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256)
additions(u64* out, u32 rounds) {
  u32 sum[8];
  for (u32 k = 0; k < 8; k++) sum[k] = k + threadIdx.x;
  for (u32 i = 0; i < rounds; i++) {
    REN_UNROLL
    for (int k = 0; k < 8; k++) sum[k] = (sum[k] ^ i) + sum[(k + 1) % 8];
  }
  u32 all = 0;
  REN_UNROLL
  for (int k = 0; k < 8; k++) all ^= sum[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256)
double_multiply_adds(u64* out, u32 rounds) {
  double sum[8];
  const double y = 1.0 + blockIdx.x * 1e-9;
  for (u32 k = 0; k < 8; k++) sum[k] = k + threadIdx.x;
  for (u32 i = 0; i < rounds; i++) {
    REN_UNROLL
    for (int k = 0; k < 8; k++) sum[k] = __fma_rn(sum[k], y, 1e-9);
  }
  double all = 0;
  REN_UNROLL
  for (int k = 0; k < 8; k++) all += sum[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = (u64)__double_as_longlong(all);
}
