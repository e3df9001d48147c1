// The last step of a division by dropped moduli: out = (x - c) D^-1 + z P D^-1 for one residue of a kept limb.
#pragma once
#include "modarith.cuh"

// constants: D^-1 and P D^-1 modulo q, per kept limb. z is null where there is no such operand.
struct Division {
  const u64* x;
  const u64* z;
  u64* out;
  u64 inverse, lifted;

  // c in [0, q). (x + q - c) D^-1 + z P D^-1 < 2^124. to: the position of the result, `at` but for an automorphism.
  __device__ __forceinline__ void store(u32 at, u32 to, u64 c, const Modulus& m) const {
    Sum sum = {0, 0};
    add_product(sum, __ldg(x + at) + m.q - c, inverse);
    if (z) add_product(sum, __ldg(z + at), lifted);
    out[to] = m.reduce(sum);
  }
};
// Operands of a unit: digits, x, z, out; row `limb` of each of the last three.
__device__ __forceinline__ Division division_of(const u64* block, u32 at, const u64* constants, u32 limb, u32 n) {
  const size_t row = (size_t)limb * n;
  const u64* z = operand<const u64>(block, at + 2);
  return {operand<const u64>(block, at + 1) + row, z ? z + row : nullptr, operand<u64>(block, at + 3) + row,
          __ldg(constants + 2 * limb), __ldg(constants + 2 * limb + 1)};
}
