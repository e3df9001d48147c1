// Element-wise programs, interpreted, and row copies.
//
// A program is a list of words in device memory; every thread runs all of it on its own two neighbouring residues, so an output may be the memory of any
// input: what a thread reads after it has written is its own business, and the program is ordered for that (`lower_elementwise.py`). An operand of an
// instruction is read from global memory, from a row of registers in shared memory, or is the result of the instruction before, which stays in real
// registers: most fused programs never touch shared memory.
//
// Range note: all values are residues in [0, q); sums of products are 128 bits wide and reduced every kSumTerms products by the program itself.
//
// Grid: x covers n / 2 pairs of one limb, y = limbs, z = batch of equal units. Operands of a unit: inputs, scalars (one word per limb), outputs.
#include "modarith.cuh"

constexpr int kThreads = 128;

// An instruction: operation, then c, b, a, result as 12-bit places.
enum Operation { kCopy, kAdd, kSubtract, kNegate, kMultiply, kStart, kAccumulate, kReduce, kFold, kScale, kAddScalar, kSubtractScalar, kScalarMinus, kConstant };
constexpr u32 kPlaceBits = 12, kPlaceMask = (1u << kPlaceBits) - 1;
// Places: below kMemory rows of shared memory; kMemory + i operand i of the unit; kLast the result before (as a target: nowhere else); kNothing none.
constexpr u32 kMemory = 1u << (kPlaceBits - 1), kLast = kPlaceMask, kNothing = kLast - 1;

// dynamic shared memory: blockDim.x pairs per row. first_only: a constant is the constant polynomial in coefficients.
extern "C" __global__ void __launch_bounds__(kThreads)
elementwise(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* program, u32 length, u32 first_only, u32 n) {
  REN_DYNAMIC_SHARED(ulonglong2, rows);
  const u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= n / 2) return;
  const u32 limb = blockIdx.y;
  const Modulus m = modulus_of(ring + limb);
  const u64 q = m.q;
  const u64* operands = block + first + blockIdx.z * stride;
  const size_t at = (size_t)limb * (n / 2) + pair;
  ulonglong2* registers = rows + threadIdx.x;
  ulonglong2 last = make_ulonglong2(0, 0);
  Sum sum_x = {0, 0}, sum_y = {0, 0};

  auto read = [&](u32 place) -> ulonglong2 {
    if (place == kLast) return last;
    if (place >= kMemory) return operand<const ulonglong2>(operands, place - kMemory)[at];
    return registers[place * blockDim.x];
  };
  // The scalar as a polynomial: both words, or coefficient 0 alone.
  auto scalar = [&](u32 place) -> ulonglong2 {
    const u64 s = __ldg(operand<const u64>(operands, place - kMemory) + limb);
    return first_only ? make_ulonglong2(pair == 0 ? s : 0, 0) : make_ulonglong2(s, s);
  };

  for (u32 i = 0; i < length; i++) {
    const u64 code = __ldg(program + i);
    const u32 target = code & kPlaceMask, pa = code >> kPlaceBits & kPlaceMask, pb = code >> 2 * kPlaceBits & kPlaceMask,
              pc = code >> 3 * kPlaceBits & kPlaceMask;
    ulonglong2 r = last;
    switch (code >> 4 * kPlaceBits) {
      case kCopy:
        r = read(pa);
        break;
      case kAdd: {
        const ulonglong2 a = read(pa), b = read(pb);
        r = make_ulonglong2(add_mod(a.x, b.x, q), add_mod(a.y, b.y, q));
        break;
      }
      case kSubtract: {
        const ulonglong2 a = read(pa), b = read(pb);
        r = make_ulonglong2(sub_mod(a.x, b.x, q), sub_mod(a.y, b.y, q));
        break;
      }
      case kNegate: {
        const ulonglong2 a = read(pa);
        r = make_ulonglong2(negate_mod(a.x, q), negate_mod(a.y, q));
        break;
      }
      case kMultiply: {
        const ulonglong2 a = read(pa), b = read(pb);
        r = make_ulonglong2(m.multiply(a.x, b.x), m.multiply(a.y, b.y));
        break;
      }
      case kStart: {  // sum = c + a b
        const ulonglong2 a = read(pa), b = read(pb), c = pc == kNothing ? make_ulonglong2(0, 0) : read(pc);
        sum_x = {c.x, 0};
        sum_y = {c.y, 0};
        add_product(sum_x, a.x, b.x);
        add_product(sum_y, a.y, b.y);
        break;
      }
      case kAccumulate: {  // sum += a b
        const ulonglong2 a = read(pa), b = read(pb);
        add_product(sum_x, a.x, b.x);
        add_product(sum_y, a.y, b.y);
        break;
      }
      case kFold:
        sum_x = {m.reduce(sum_x), 0};
        sum_y = {m.reduce(sum_y), 0};
        break;
      case kReduce:
        r = make_ulonglong2(m.reduce(sum_x), m.reduce(sum_y));
        break;
      case kScale: {
        const ulonglong2 a = read(pa);
        const u64 s = __ldg(operand<const u64>(operands, pb - kMemory) + limb);
        r = make_ulonglong2(m.multiply(a.x, s), m.multiply(a.y, s));
        break;
      }
      case kAddScalar: {
        const ulonglong2 a = read(pa), s = scalar(pb);
        r = make_ulonglong2(add_mod(a.x, s.x, q), add_mod(a.y, s.y, q));
        break;
      }
      case kSubtractScalar: {
        const ulonglong2 a = read(pa), s = scalar(pb);
        r = make_ulonglong2(sub_mod(a.x, s.x, q), sub_mod(a.y, s.y, q));
        break;
      }
      case kScalarMinus: {
        const ulonglong2 a = read(pa), s = scalar(pb);
        r = make_ulonglong2(sub_mod(s.x, a.x, q), sub_mod(s.y, a.y, q));
        break;
      }
      default:
        r = scalar(pa);
    }
    last = r;
    if (target == kLast) continue;
    if (target >= kMemory) operand<ulonglong2>(operands, target - kMemory)[at] = r;
    else registers[target * blockDim.x] = r;
  }
}

// Operands: x, out. Grid: x covers the `pairs` of all limbs, z = batch.
extern "C" __global__ void __launch_bounds__(256)
copy(const u64* block, u32 first, u32 stride, u64 pairs) {
  const u32 at = first + blockIdx.z * stride;
  const ulonglong2* in = operand<const ulonglong2>(block, at);
  ulonglong2* out = operand<ulonglong2>(block, at + 1);
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += (u64)gridDim.x * blockDim.x) out[i] = __ldg(in + i);
}
