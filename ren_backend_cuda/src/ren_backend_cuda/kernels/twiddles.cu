// Twiddle tables of many limbs, computed where they are needed. Grid: x covers the nodes, y = limbs.
// bases: per limb 2 log_n residues, psi^(2^b) and psi^-(2^b) for b = 0 .. log_n - 1. Node i is psi^bitreverse(i) and its quotient, at `row_twiddle(i)`.
#include "modarith.cuh"
#include "order.cuh"

// w in [0, q)  ->  floor(w 2^64 / q). The estimate is at most 2 too small; what is left, below 3q < 2^63, says how much.
__device__ __forceinline__ u64 quotient(u64 w, const Modulus& m) {
  u64 estimate = w * m.inv64 + __umul64hi(w, m.frac64);
  u64 rest = 0 - estimate * m.q;
  for (int i = 0; i < 2; i++) {
    if (rest >= m.q) {
      rest -= m.q;
      estimate++;
    }
  }
  return estimate;
}

extern "C" __global__ void __launch_bounds__(256)
twiddle_tables(const Limb* ring, const u64* bases, u32 log_n) {
  const u32 n = 1u << log_n, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const u64* base = bases + (size_t)blockIdx.y * 2 * log_n;
  u64 forward = 1, inverse = 1;
  for (u32 b = 0; b < log_n; b++) {
    if (!(i >> (log_n - 1 - b) & 1)) continue;
    forward = m.multiply(forward, __ldg(base + b));
    inverse = m.multiply(inverse, __ldg(base + log_n + b));
  }
  const u32 at = row_twiddle(i, log_n);
  global_pointer<ulonglong2>(__ldg(&limb->forward))[at] = make_ulonglong2(forward, quotient(forward, m));
  global_pointer<ulonglong2>(__ldg(&limb->inverse))[at] = make_ulonglong2(inverse, quotient(inverse, m));
}
