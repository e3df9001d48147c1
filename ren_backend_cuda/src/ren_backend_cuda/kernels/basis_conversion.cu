// Base conversion in the coefficient domain: digits of residues, and from digits to residues modulo other primes.
// Grid: x covers the n coefficients, y = limbs, z = batch of equal units.
#include "conversion.cuh"
#include "scaling.cuh"

// Operands: x, z, out. y_i = (x_i + P z_i) f_i mod q_i in [0, q_i), from limb `centre_from` on shifted to a centred digit; the first z_rows limbs have z.
extern "C" __global__ void __launch_bounds__(256)
digits(const u64* block, u32 first, u32 stride, const Limb* ring, const Scale* scales, u32 z_rows, u32 centre_from, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  const Scale* s = scales + blockIdx.y;
  const size_t row = (size_t)blockIdx.y * n;
  const u64* z = blockIdx.y < z_rows ? operand<const u64>(block, at + 1) + row : nullptr;
  const u64 x = with_addend(__ldg(operand<const u64>(block, at) + row + i), z, i, __ldg(&s->addend), m);
  operand<u64>(block, at + 2)[row + i] = finished(shoup_lazy(x, __ldg(&s->factor), __ldg(&s->factor_s), m.q), blockIdx.y >= centre_from, m.q);
}

// The overflow v of an exact conversion (`ren.ops`): v = (2^55 + sum f_i) >> 56, f_i = (y_i R_i) >> shift_i < 2^56. reciprocals: R_i, shift_i per limb, at most 255 limbs,
// so that the sum stays below 2^64. Operands: digits, v. Grid y = 1.
extern "C" __global__ void __launch_bounds__(256)
overflow(const u64* block, u32 first, u32 stride, const u64* reciprocals, u32 limbs, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const u64* y = operand<const u64>(block, at) + i;
  u64 sum = 1ull << 55;
  for (u32 j = 0; j < limbs; j++) {
    const u64 v = __ldg(y + (size_t)j * n), r = __ldg(reciprocals + 2 * j);
    const u32 shift = (u32)__ldg(reciprocals + 2 * j + 1);  // 10 .. 68
    const u64 lo = v * r, hi = __umul64hi(v, r);
    sum += shift < 64 ? (lo >> shift) | (hi << (64 - shift)) : hi >> (shift - 64);
  }
  operand<u64>(block, at + 1)[i] = sum >> 56;
}

// Operands: rows of digits, out: row t is their conversion with row t of `constants`, terms + 1 words each.
extern "C" __global__ void __launch_bounds__(256)
convert_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 terms, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  const Conversion conversion = {operand<const u64>(block, at), constants + (size_t)blockIdx.y * (terms + 1), terms, n};
  operand<u64>(block, at + 1)[(size_t)blockIdx.y * n + i] = conversion.value(i, m);
}
