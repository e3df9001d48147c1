// Negacyclic NTT of 2 <= n <= 2^11 words, primes below 2^61: one block per limb, the whole row in shared memory. The same transforms and the same fused ends as in
// ntt.cu, in one kernel each. Small rings are for tests and toys, so this is the plain form: one level at a time.
//
// Range note, forward: words stay below 4q < 2^63; each level reduces the upper operand below 2q. Inverse: words stay below 2q.
//
// Grid: x = 1, y = limbs, z = batch of equal units (times digits). Block: at most n / 2 threads.
#include "conversion.cuh"
#include "divide.cuh"
#include "order.cuh"
#include "scaling.cuh"

constexpr int kThreads = 256;

// a: coefficients below 4q -> values below 4q in bit-reversed order. A thread's words of the first level are those that it has written itself (every
// blockDim.x-th), so a barrier is due only after each level.
__device__ __forceinline__ void forward_levels(u64* a, const Limb* limb, u32 log_n, u64 q) {
  const ulonglong2* w = global_pointer<const ulonglong2>(__ldg(&limb->forward));
  for (u32 s = 0; s < log_n; s++) {
    const u32 log_half = log_n - 1 - s, half = 1u << log_half;
    for (u32 j = threadIdx.x; j < 1u << (log_n - 1); j += blockDim.x) {
      const u32 node = j >> log_half, i = 2 * half * node + (j & (half - 1));
      const ulonglong2 t = __ldg(w + (1u << s) + node);
      const u64 x = subtract_once(a[i], 2 * q), y = shoup_lazy(a[i + half], t.x, t.y, q);
      a[i] = x + y;
      a[i + half] = x - y + 2 * q;
    }
    __syncthreads();
  }
}

// a: values below 2q in bit-reversed order -> coefficients times n, below 2q. Barriers at both ends.
__device__ __forceinline__ void inverse_levels(u64* a, const Limb* limb, u32 log_n, u64 q) {
  const ulonglong2* w = global_pointer<const ulonglong2>(__ldg(&limb->inverse));
  __syncthreads();
  for (u32 s = log_n; s-- > 0;) {
    const u32 log_half = log_n - 1 - s, half = 1u << log_half;
    for (u32 j = threadIdx.x; j < 1u << (log_n - 1); j += blockDim.x) {
      const u32 node = j >> log_half, i = 2 * half * node + (j & (half - 1));
      const ulonglong2 t = __ldg(w + (1u << s) + node);
      const u64 x = a[i], y = a[i + half];
      a[i] = subtract_once(x + y, 2 * q);
      a[i + half] = shoup_lazy(x - y + 2 * q, t.x, t.y, q);
    }
    __syncthreads();
  }
}

// The value at stored position i, in [0, q).
__device__ __forceinline__ u64 stored_value(const u64* a, u32 i, u32 n, u64 q) {
  return subtract_once(subtract_once(a[stored_position(i, n)], 2 * q), q);
}

// Operands: x, out. out may be x.
extern "C" __global__ void __launch_bounds__(kThreads)
forward(const u64* block, u32 first, u32 stride, const Limb* ring, u32 log_n) {
  REN_DYNAMIC_SHARED(u64, a);
  const u32 n = 1u << log_n, at = first + blockIdx.z * stride;
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const size_t row = (size_t)blockIdx.y << log_n;
  const u64* in = operand<const u64>(block, at) + row;
  u64* out = operand<u64>(block, at + 1) + row;
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) a[i] = in[i];
  forward_levels(a, limb, log_n, q);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) out[i] = stored_value(a, i, n, q);
}

// Operands: x, z, out; out may be x. The first z_rows limbs transform x + P z; from limb `centre_from` on coefficients become centred digits.
extern "C" __global__ void __launch_bounds__(kThreads)
inverse(const u64* block, u32 first, u32 stride, const Limb* ring, const Scale* scales, u32 z_rows, u32 centre_from, u32 log_n) {
  REN_DYNAMIC_SHARED(u64, a);
  const u32 n = 1u << log_n, at = first + blockIdx.z * stride;
  const Limb* limb = ring + blockIdx.y;
  const Scale* s = scales + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const size_t row = (size_t)blockIdx.y << log_n;
  const u64* in = operand<const u64>(block, at) + row;
  const u64* z = blockIdx.y < z_rows ? operand<const u64>(block, at + 1) + row : nullptr;
  u64* out = operand<u64>(block, at + 2) + row;
  const u64 addend = __ldg(&s->addend), f = __ldg(&s->factor), fs = __ldg(&s->factor_s);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) a[stored_position(i, n)] = with_addend(in[i], z, i, addend, m);
  inverse_levels(a, limb, log_n, m.q);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) out[i] = finished(shoup_lazy(a[i], f, fs, m.q), blockIdx.y >= centre_from, m.q);
}

// The transform of converted digits. Operands: rows of digits, own, out [digit][limb][n]. Limb t of digit d is the conversion of rows d alpha .. with
// row (d gridDim.y + t) of `constants`, alpha + 1 words each. The first limb here is number `first_limb` of all that digits are converted to. Limbs a digit owns
// are copied from `own` where keep_own.
extern "C" __global__ void __launch_bounds__(kThreads)
convert(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 digits, u32 alpha, u32 limbs, u32 keep_own, u32 first_limb,
        u32 log_n) {
  REN_DYNAMIC_SHARED(u64, a);
  const u32 n = 1u << log_n, d = blockIdx.z % digits, at = first + blockIdx.z / digits * stride;
  const Digit digit = digit_of(d, alpha, limbs);
  const size_t out_row = (size_t)d * gridDim.y + blockIdx.y;
  u64* out = operand<u64>(block, at + 2) + (out_row << log_n);
  if (keep_own && digit.owns(first_limb + blockIdx.y)) {  // the whole block
    const u64* own = operand<const u64>(block, at + 1) + ((size_t)blockIdx.y << log_n);
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) out[i] = own[i];
    return;
  }
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const Conversion conversion = {operand<const u64>(block, at) + ((size_t)digit.first << log_n), constants + out_row * (alpha + 1), digit.count, n};
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) a[i] = conversion.value(i, m);
  forward_levels(a, limb, log_n, m.q);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) out[i] = stored_value(a, i, n, m.q);
}

// The end of a division in the NTT domain, and X -> X^g of its result. Operands: rows of digits, x, z, out. constants: per limb `terms` + 1 words; division: two words per limb.
extern "C" __global__ void __launch_bounds__(kThreads)
convert_divide(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, const u64* divisions, u32 terms, u32 g_inverse, u32 log_n) {
  REN_DYNAMIC_SHARED(u64, a);
  const u32 n = 1u << log_n, at = first + blockIdx.z * stride;
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const Conversion conversion = {operand<const u64>(block, at), constants + (size_t)blockIdx.y * (terms + 1), terms, n};
  const Division division = division_of(block, at, divisions, blockIdx.y, n);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) a[i] = conversion.value(i, m);
  forward_levels(a, limb, log_n, m.q);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) division.store(i, automorphism_source(i, g_inverse, log_n), stored_value(a, i, n, m.q), m);
}
