// The inner product of gadget digits with a key: (b, a) = sum over d of digit_d key[d]. In 128 bits, reduced every kSumTerms products.
// Grid: x covers n / 2 pairs of one limb, y = limbs, z = batch of equal units. Operands: digits [digit][limb][n], key [digit][2][key limb][n], b, a.
#include "modarith.cuh"

// index: which limb of the key belongs to each limb.
extern "C" __global__ void __launch_bounds__(256)
gadget_product(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* index, u32 digits, u32 key_limbs, u32 n) {
  const u32 half = n / 2, pair = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (pair >= half) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  const ulonglong2* digit = operand<const ulonglong2>(block, at) + (size_t)blockIdx.y * half + pair;
  const ulonglong2* key = operand<const ulonglong2>(block, at + 1) + __ldg(index + blockIdx.y) * half + pair;
  const size_t component = (size_t)key_limbs * half;
  Sum b[2] = {{0, 0}, {0, 0}}, a[2] = {{0, 0}, {0, 0}};
  for (u32 d = 0; d < digits; d++) {
    const ulonglong2 x = __ldg(digit), kb = __ldg(key), ka = __ldg(key + component);
    add_product(b[0], x.x, kb.x);
    add_product(b[1], x.y, kb.y);
    add_product(a[0], x.x, ka.x);
    add_product(a[1], x.y, ka.y);
    if (d % kSumTerms == kSumTerms - 1) {
      REN_UNROLL
      for (int j = 0; j < 2; j++) {
        b[j] = {m.reduce(b[j]), 0};
        a[j] = {m.reduce(a[j]), 0};
      }
    }
    digit += (size_t)gridDim.y * half;
    key += 2 * component;
  }
  const size_t row = (size_t)blockIdx.y * half + pair;
  operand<ulonglong2>(block, at + 2)[row] = make_ulonglong2(m.reduce(b[0]), m.reduce(b[1]));
  operand<ulonglong2>(block, at + 3)[row] = make_ulonglong2(m.reduce(a[0]), m.reduce(a[1]));
}
