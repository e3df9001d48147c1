// Kernels with one planted fault each, and some without. The check build must name every fault, and nothing else.
#include "ren_device.cuh"

extern "C" __global__ void clean(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  u64* x = slot<u64>(block, 0);
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void missing_barrier(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  u64* x = slot<u64>(block, 0);
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void write_after_read(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  u64* x = slot<u64>(block, 0);
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const u64 v = s[(threadIdx.x + 1) % blockDim.x];
  s[threadIdx.x] = v;  // needs a barrier before it
  x[threadIdx.x] = v;
}
extern "C" __global__ void write_after_write(const u64* block) {
  u64* x = slot<u64>(block, 0);
  x[threadIdx.x] = 1;
  x[(threadIdx.x + 1) % blockDim.x] = 2;
}
extern "C" __global__ void blocks_race(const u64* block) {
  u64* x = slot<u64>(block, 0);
  if (threadIdx.x == 0) x[0] = x[0] + 1;  // every block
}
extern "C" __global__ void past_the_end(const u64* block) {
  u64* x = slot<u64>(block, 0);
  x[threadIdx.x + 1] = 7;
}
extern "C" __global__ void before_the_start(const u64* block) {
  const u64* x = slot<u64>(block, 0);
  slot<u64>(block, 0)[threadIdx.x] = *(x - 1);
}
extern "C" __global__ void shared_past_the_end(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x + 1] = slot<u64>(block, 0)[threadIdx.x];
}
extern "C" __global__ void wild(const u64* block) { slot<u64>(block, 0)[1u << 28] = 1; }
extern "C" __global__ void uninitialised(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void uninitialised_static(const u64* block) {
  __shared__ u64 s[64];
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void uninitialised_global(const u64* block) { slot<u64>(block, 0)[threadIdx.x] = slot<u64>(block, 1)[threadIdx.x]; }
extern "C" __global__ void uninitialised_atomic(const u64* block) { atomicAdd(slot<u64>(block, 1), 1ull); }
extern "C" __global__ void misaligned(const u64* block) {
  unsigned char* x = slot<unsigned char>(block, 0);
  *reinterpret_cast<u64*>(x + 4) = 1;
}
extern "C" __global__ void misaligned_pair(const u64* block) {
  const ulonglong2* x = reinterpret_cast<const ulonglong2*>(slot<const u64>(block, 0) + 1);
  slot<u64>(block, 2)[threadIdx.x] = __ldg(x).y;
}
extern "C" __global__ void misaligned_copy(const u64* block) {  // no intrinsic in sight: the compiler's own 16-byte moves
  const ulonglong2* x = reinterpret_cast<const ulonglong2*>(slot<const u64>(block, 0) + 1);
  if (threadIdx.x < 31) slot<ulonglong2>(block, 2)[threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void misaligned_store(const u64* block) {
  ulonglong2* x = reinterpret_cast<ulonglong2*>(slot<u64>(block, 0) + 1);
  if (threadIdx.x < 31) x[threadIdx.x] = slot<const ulonglong2>(block, 2)[threadIdx.x];
}
extern "C" __global__ void barrier_in_branch(const u64* block) {
  if (threadIdx.x & 1) __syncthreads();
  else __syncthreads();
}
extern "C" __global__ void half_a_warp(const u64* block) {
  u64 v = threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);
  slot<u64>(block, 0)[threadIdx.x] = v;
}
extern "C" __global__ void lane_outside_mask(const u64* block) {
  u64 v = threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0x0000ffffu, v, 16);
  slot<u64>(block, 0)[threadIdx.x] = v;
}
extern "C" __global__ void caller_outside_mask(const u64* block) {
  slot<u64>(block, 0)[threadIdx.x] = __ballot_sync(0x0000ffffu, threadIdx.x & 1);
}
extern "C" __global__ void warp_without_sync(const u64* block) {  // lock-step assumption, wrong since Volta
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x] = threadIdx.x;
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void shuffle_is_no_fence(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
  const unsigned v = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x ^ 1] + v;
}
extern "C" __global__ void ldg_then_write(const u64* block) {
  u64* x = slot<u64>(block, 0);
  const u64 v = __ldg(x + threadIdx.x);
  x[threadIdx.x] = v + 1;
}
extern "C" __global__ void write_then_ldg(const u64* block) {
  u64* x = slot<u64>(block, 0);
  x[threadIdx.x] = threadIdx.x;
  slot<u64>(block, 2)[threadIdx.x] = __ldg(x + threadIdx.x);
}
extern "C" __global__ void atomic_and_plain(const u64* block) {
  u64* x = slot<u64>(block, 0);
  if (threadIdx.x) atomicAdd(x, 1ull);
  else x[0] = 5;
}
extern "C" __global__ void atomics_then_read(const u64* block) {  // whose the last addition is depends on the order of threads
  u64* x = slot<u64>(block, 0);
  atomicAdd(x, 1ull);
  if (threadIdx.x == blockDim.x - 1) x[1] = x[0];
}
extern "C" __global__ void atomics_of_blocks_then_read(const u64* block) {
  u64* x = slot<u64>(block, 0);
  if (threadIdx.x == 0) atomicAdd(x, 1ull);
  __syncthreads();
  if (threadIdx.x == 1 && blockIdx.x == gridDim.x - 1) x[1] = x[0];
}
extern "C" __global__ void own_words_unwritten(const u64* block, int count) {
  u64 own[4];
  for (int i = 0; i < count; i++) own[i] = i;
  u64 sum = 0;
  for (int i = 0; i < 4; i++) sum ^= own[i] >> 63;
  slot<u64>(block, 0)[threadIdx.x] = sum + own[3];
}
extern "C" __global__ void wide_shift(const u64* block, int by) { slot<u64>(block, 0)[threadIdx.x] = 1ull << by; }

// -- no fault
extern "C" __global__ void warp_with_sync(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x] = threadIdx.x;
  __syncwarp();
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void warp_reads_then_writes(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x] = threadIdx.x;
  __syncwarp();
  const u64 v = s[threadIdx.x ^ 1];
  __syncwarp();
  s[threadIdx.x] = s[threadIdx.x] + v;  // its own word, which others read before the last __syncwarp
  __syncwarp();
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x ^ 2];
}
extern "C" __global__ void atomics_are_fine(const u64* block) { atomicAdd(slot<u64>(block, 0), 1ull); }
extern "C" __global__ void atomics_with_barrier(const u64* block) {
  u64* x = slot<u64>(block, 0);
  atomicAdd(x, 1ull);
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) x[1] = x[0];
  else if (threadIdx.x == 0) atomicAdd(x + 2, x[0]);
}
extern "C" __global__ void early_exit(const u64* block) {  // a barrier counts those that have not left
  if (threadIdx.x >= 40) return;
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  slot<u64>(block, 0)[threadIdx.x] = s[39 - threadIdx.x];
}
extern "C" __global__ void bank_conflicts(const u64* block) {
  REN_DYNAMIC_SHARED(u64, s);
  s[threadIdx.x * 16] = threadIdx.x;
  slot<u64>(block, 0)[threadIdx.x] = s[threadIdx.x * 16];
}
extern "C" __global__ void __launch_bounds__(32 * 2) bounded(const u64* block, u32 words, i64 number, u64 big, double factor) {
  if (threadIdx.x < words) slot<u64>(block, 0)[threadIdx.x] = (u64)(number * factor) + big;
}
