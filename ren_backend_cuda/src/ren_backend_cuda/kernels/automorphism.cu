// X -> X^g for odd g, on coefficients and in the NTT domain: permutations from index arithmetic, no table. Out of place.
// Grid: x covers one limb, y = limbs, z = batch of equal units. Operands: x, out. n from 2 to 2^17.
#include "modarith.cuh"
#include "order.cuh"

// Gather form: coefficient i comes from index i g^-1 mod 2n, negated when that lands in the upper half. Residues in, residues out.
extern "C" __global__ void __launch_bounds__(256)
automorphism_coefficients(const u64* block, u32 first, u32 stride, const Limb* ring, u32 log_n, u32 inverse_of_g) {
  const u32 n = 1u << log_n, i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const size_t row = (size_t)blockIdx.y << log_n;
  const u64 q = __ldg(&ring[blockIdx.y].q);
  const u32 from = (i * inverse_of_g) & (2 * n - 1);  // wraps modulo 2^32, a multiple of 2n
  const u64 v = __ldg(operand<const u64>(block, at) + row + (from & (n - 1)));
  operand<u64>(block, at + 1)[row + i] = from < n ? v : negate_mod(v, q);
}

extern "C" __global__ void __launch_bounds__(256)
automorphism_values(const u64* block, u32 first, u32 stride, u32 log_n, u32 g) {
  const u32 n = 1u << log_n, i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const size_t row = (size_t)blockIdx.y << log_n;
  operand<u64>(block, at + 1)[row + i] = __ldg(operand<const u64>(block, at) + row + automorphism_source(i, g, log_n));
}
