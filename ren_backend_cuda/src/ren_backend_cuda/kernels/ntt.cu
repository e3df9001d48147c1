// Negacyclic NTT of length N = 2^REN_LOG_N (12..17), primes below 2^61, in two kernels per direction, and what is fused to its ends.
//
// N = N1 N2. The first S1 levels act on columns (stride N2), the last S2 levels on rows of N2 words. Each thread owns 16 words in
// registers; a kernel does 4 levels, exchanges through shared memory, does the rest:
//
//   columns: words k M + g of a column (M = N1 / 16) -> 4 levels -> shared -> words 16 g + k -> S1 - 4 levels
//   rows:    the same along a row (for S2 = 9 with one more exchange), plus a trip through shared memory that puts the values into stored order and
//            makes the global stores coalesced. The threads of a row belong to one warp, so that __syncwarp orders the exchange.
//
// Ranges: `ntt_levels.cuh`. Between the two forward kernels words are below 8q, between the inverse ones below 2q.
//
// Grid: x = tiles of one limb, y = limbs, z = batch of equal units (times digits). Unit b has its operands from word first + b stride of the block on;
// rows of an operand are [limb][N].
#include "conversion.cuh"
#include "divide.cuh"
#include "ntt_levels.cuh"
#include "order.cuh"
#include "scaling.cuh"

#ifndef REN_LOG_N
#error "define REN_LOG_N"
#endif
constexpr int kLogN = REN_LOG_N;
constexpr u32 kN = 1u << kLogN;
constexpr int kS1 = kLogN / 2, kS2 = kLogN - kS1, kN1 = 1 << kS1, kN2 = 1 << kS2;
constexpr int kM1 = kN1 / 16, kM2 = kN2 / 16;
constexpr int kColumns = 16;       // columns per block: 128 contiguous bytes per row
constexpr int kThreads1 = kColumns * kM1;
constexpr int kThreads2 = 256;     // 256 / M2 rows per block
constexpr int kKeyThreads = 128;   // fewer, because a key product keeps 32 sums of 128 bits in registers
constexpr int kPitch = kN2 + kM2;  // spare words: no bank conflicts at stride 16
static_assert(kS1 >= 5 && kS1 <= 8 && kS2 <= 9 && kM2 <= 32, "16 words per thread, and a row per warp at most");

// Where word j of a row lies in shared memory: one spare word after every 16, and after the last level, for stores of stride 2.
__device__ __forceinline__ int padded(int j) { return j + (j >> 4); }
__device__ __forceinline__ int padded_out(int j) { return j + 8 * (j >> 7) + ((j >> 6) & 1); }

__device__ __forceinline__ const ulonglong2* forward_twiddles(const Limb* limb) { return global_pointer<const ulonglong2>(__ldg(&limb->forward)); }
__device__ __forceinline__ const ulonglong2* inverse_twiddles(const Limb* limb) { return global_pointer<const ulonglong2>(__ldg(&limb->inverse)); }

// -- columns ------------------------------------------------------------------------------------------------------------------

// x[k]: word g + k M of a column, below 8q. out: the column's first word.
__device__ __forceinline__ void forward_column(u64 (&x)[16], u64* tile, const ulonglong2* w, u32 c, u32 g, u64 q, u64* out) {
  forward_levels<kS1, 0, 4, kS1 - 4>(x, w, 1, g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) tile[(g + k * kM1) * kColumns + c] = x[k];
  __syncthreads();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = tile[(16 * g + k) * kColumns + c];
  forward_levels<kS1, 4, kS1, 0>(x, w, 1, 16 * g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) out[(size_t)(16 * g + k) * kN2] = x[k];
}

// Operands: x, out. out may be x.
extern "C" __global__ void __launch_bounds__(kThreads1)
forward_columns(const u64* block, u32 first, u32 stride, const Limb* ring) {
  REN_DYNAMIC_SHARED(u64, tile);
  const Limb* limb = ring + blockIdx.y;
  const u32 at = first + blockIdx.z * stride, c = threadIdx.x % kColumns, g = threadIdx.x / kColumns;
  const size_t row = ((size_t)blockIdx.y << kLogN) + blockIdx.x * kColumns + c;
  const u64* in = operand<const u64>(block, at) + row;
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[(size_t)(g + k * kM1) * kN2];
  forward_column(x, tile, forward_twiddles(limb), c, g, __ldg(&limb->q), operand<u64>(block, at + 1) + row);
}

// The transform of converted digits. Operands: rows of digits, out [digit][limb][N]. Limb t of digit d is the conversion of rows d alpha .. with row
// (d gridDim.y + t) of `constants`, alpha + 1 words each. Limbs a digit owns are left out where keep_own: their transform is known.
extern "C" __global__ void __launch_bounds__(kThreads1)
convert_columns(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 digits, u32 alpha, u32 limbs, u32 keep_own) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 d = blockIdx.z % digits, at = first + blockIdx.z / digits * stride;
  const Digit digit = digit_of(d, alpha, limbs);
  if (keep_own && digit.owns(blockIdx.y)) return;  // the whole block
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const u32 c = threadIdx.x % kColumns, g = threadIdx.x / kColumns, column = blockIdx.x * kColumns + c;
  const size_t out_row = (size_t)d * gridDim.y + blockIdx.y;
  const Conversion conversion = {operand<const u64>(block, at) + ((size_t)digit.first << kLogN), constants + out_row * (alpha + 1), digit.count, kN};
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k += 4) {
    u32 where[4];
    u64 some[4];
    REN_UNROLL
    for (int j = 0; j < 4; j++) where[j] = (g + (k + j) * kM1) * kN2 + column;
    conversion.values(where, some, m);
    REN_UNROLL
    for (int j = 0; j < 4; j++) x[k + j] = some[j];
  }
  forward_column(x, tile, forward_twiddles(limb), c, g, m.q, operand<u64>(block, at + 1) + (out_row << kLogN) + column);
}

// Operands: x (between the kernels), out. Coefficients times the limb's factor; from limb `centre_from` on as centred digits.
extern "C" __global__ void __launch_bounds__(kThreads1)
inverse_columns(const u64* block, u32 first, u32 stride, const Limb* ring, const Scale* scales, u32 centre_from) {
  REN_DYNAMIC_SHARED(u64, tile);
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const ulonglong2* w = inverse_twiddles(limb);
  const u32 at = first + blockIdx.z * stride, c = threadIdx.x % kColumns, g = threadIdx.x / kColumns;
  const size_t row = ((size_t)blockIdx.y << kLogN) + blockIdx.x * kColumns + c;
  const u64* in = operand<const u64>(block, at) + row;
  u64* out = operand<u64>(block, at + 1) + row;
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[(size_t)(16 * g + k) * kN2];
  inverse_levels<kS1, 4, kS1, 0>(x, w, 1, 16 * g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) tile[(16 * g + k) * kColumns + c] = x[k];
  __syncthreads();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = tile[(g + k * kM1) * kColumns + c];
  inverse_levels<kS1, 1, 4, kS1 - 4>(x, w, 1, g, q);
  // The root level carries the factor in both of its outputs.
  const Scale* s = scales + blockIdx.y;
  const u64 f = __ldg(&s->factor), fs = __ldg(&s->factor_s), r = __ldg(&s->root), rs = __ldg(&s->root_s);
  const bool centred = blockIdx.y >= centre_from;
  REN_UNROLL
  for (int k = 0; k < 8; k++) {
    const u64 a = x[k], b = x[k + 8];
    out[(size_t)(g + k * kM1) * kN2] = finished(shoup_lazy(a + b, f, fs, q), centred, q);
    out[(size_t)(g + (k + 8) * kM1) * kN2] = finished(shoup_lazy(a - b + 2 * q, r, rs, q), centred, q);
  }
}

// -- rows ---------------------------------------------------------------------------------------------------------------------

// The place of a thread: word g of row `row` first, then every M2-th; t is the row's part of shared memory.
struct Row {
  u32 g, row;
  u64* t;
};
__device__ __forceinline__ Row row_of(u64* tile) {
  const u32 r = threadIdx.x / kM2;
  return {threadIdx.x % kM2, blockIdx.x * (blockDim.x / kM2) + r, tile + r * kPitch};
}

// x[k]: word g + k M2 of a row, below 8q -> the value at stored position g + k M2, in [0, q). May be called again at once.
__device__ __forceinline__ void forward_row(u64 (&x)[16], const Row& p, const ulonglong2* w, u64 q) {
  const u32 g = p.g, node = kN1 + p.row;
  u64* t = p.t;
  forward_levels<kS2, 0, 4, kS2 - 4>(x, w, node, g, q);
  __syncwarp();  // a former call has read its last words
  REN_UNROLL
  for (int k = 0; k < 16; k++) t[padded(g + k * kM2)] = x[k];
  __syncwarp();
  if constexpr (kS2 == 9) {
    const int origin = 32 * (g >> 1) + (g & 1);
    REN_UNROLL
    for (int k = 0; k < 16; k++) x[k] = t[padded(origin + 2 * k)];
    forward_levels<kS2, 4, 8, 1>(x, w, node, origin, q);
    REN_UNROLL
    for (int k = 0; k < 16; k++) t[padded(origin + 2 * k)] = x[k];
    __syncwarp();
  }
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = t[padded(16 * g + k)];
  forward_levels<kS2, kS2 == 9 ? 8 : 4, kS2, 0>(x, w, node, 16 * g, q);
  __syncwarp();
  REN_UNROLL
  for (int k = 0; k < 16; k++) t[padded_out(stored_position(16 * g + k, kN))] = canonical(x[k], q);
  __syncwarp();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = t[padded_out(g + k * kM2)];
}

// Operands: x (between the kernels), own, out, all [digit][limb][N] but `own`, [limb][N]. Limbs a digit owns are copied from `own` where keep_own.
extern "C" __global__ void __launch_bounds__(kThreads2)
forward_rows(const u64* block, u32 first, u32 stride, const Limb* ring, u32 digits, u32 alpha, u32 limbs, u32 keep_own) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 d = blockIdx.z % digits, at = first + blockIdx.z / digits * stride;
  const Row p = row_of(tile);
  const Limb* limb = ring + blockIdx.y;
  const size_t in_limb = (size_t)p.row * kN2 + p.g, row = (((size_t)d * gridDim.y + blockIdx.y) << kLogN) + in_limb;
  u64* out = operand<u64>(block, at + 2) + row;
  u64 x[16];
  if (keep_own && digit_of(d, alpha, limbs).owns(blockIdx.y)) {  // the whole block
    const u64* own = operand<const u64>(block, at + 1) + ((size_t)blockIdx.y << kLogN) + in_limb;
    REN_UNROLL
    for (int k = 0; k < 16; k++) out[k * kM2] = own[k * kM2];
    return;
  }
  const u64* in = operand<const u64>(block, at) + row;
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[k * kM2];
  forward_row(x, p, forward_twiddles(limb), __ldg(&limb->q));
  REN_UNROLL
  for (int k = 0; k < 16; k++) out[k * kM2] = x[k];
}

// The end of a division in the NTT domain. Operands: the transform of c (between the kernels), x, z, out.
extern "C" __global__ void __launch_bounds__(kThreads2)
divide_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 has_z) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of(tile);
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const u32 in_limb = p.row * kN2 + p.g;
  const u64* in = operand<const u64>(block, at) + ((size_t)blockIdx.y << kLogN) + in_limb;
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[k * kM2];
  forward_row(x, p, forward_twiddles(limb), m.q);
  const Division division = division_of(block, at, constants, blockIdx.y, kN, has_z);
  REN_UNROLL
  for (int k = 0; k < 16; k++) division.store(in_limb + k * kM2, x[k], m);
}

// The end of a key switch: finish the transform of each digit, multiply with both components of its key row, sum. Operands: digits (between the kernels), x,
// key [digit][2][key limb][N], b, a. index: the key limb of each limb. Limbs a digit owns are read from x where keep_own.
extern "C" __global__ void __launch_bounds__(kKeyThreads)
key_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* index, u32 digits, u32 alpha, u32 limbs, u32 keep_own, u32 key_limbs) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of(tile);
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const ulonglong2* w = forward_twiddles(limb);
  const size_t in_limb = (size_t)p.row * kN2 + p.g, row = ((size_t)blockIdx.y << kLogN) + in_limb;
  const u64* digit_row = operand<const u64>(block, at) + row;
  const u64* own_row = operand<const u64>(block, at + 1) + row;
  const u64* key_row = operand<const u64>(block, at + 2) + (__ldg(index + blockIdx.y) << kLogN) + in_limb;
  const size_t component = (size_t)key_limbs << kLogN;
  Sum sums[2][16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) sums[0][k] = sums[1][k] = {0, 0};
  for (u32 d = 0; d < digits; d++) {
    u64 x[16];
    if (keep_own && digit_of(d, alpha, limbs).owns(blockIdx.y)) {  // the whole block
      REN_UNROLL
      for (int k = 0; k < 16; k++) x[k] = __ldg(own_row + k * kM2);
    } else {
      REN_UNROLL
      for (int k = 0; k < 16; k++) x[k] = __ldg(digit_row + k * kM2);
      forward_row(x, p, w, q);
    }
    REN_UNROLL
    for (int k = 0; k < 16; k++) {
      add_product(sums[0][k], x[k], __ldg(key_row + k * kM2));
      add_product(sums[1][k], x[k], __ldg(key_row + component + k * kM2));
    }
    if (d % kSumTerms == kSumTerms - 1) {
      const Modulus m = modulus_of(limb);
      REN_UNROLL
      for (int k = 0; k < 16; k++) {
        sums[0][k] = {m.reduce(sums[0][k]), 0};
        sums[1][k] = {m.reduce(sums[1][k]), 0};
      }
    }
    digit_row += (size_t)gridDim.y << kLogN;
    key_row += 2 * component;
  }
  const Modulus m = modulus_of(limb);
  u64 *b = operand<u64>(block, at + 3) + row, *a = operand<u64>(block, at + 4) + row;
  REN_UNROLL
  for (int k = 0; k < 16; k++) {
    b[k * kM2] = m.reduce(sums[0][k]);
    a[k * kM2] = m.reduce(sums[1][k]);
  }
}

// Operands: x, z, out (between the kernels); out may be x. The first z_rows limbs transform x + P z.
extern "C" __global__ void __launch_bounds__(kThreads2)
inverse_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const Scale* scales, u32 z_rows) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of(tile);
  const u32 g = p.g, node = kN1 + p.row;
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const ulonglong2* w = inverse_twiddles(limb);
  const size_t row = ((size_t)blockIdx.y << kLogN) + (size_t)p.row * kN2 + g;
  const u64* in = operand<const u64>(block, at) + row;
  u64* out = operand<u64>(block, at + 2) + row;
  u64* t = p.t;
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[k * kM2];
  if (blockIdx.y < z_rows) {
    const Modulus m = modulus_of(limb);
    const u64* z = operand<const u64>(block, at + 1) + row;
    const u64 addend = __ldg(&scales[blockIdx.y].addend);
    REN_UNROLL
    for (int k = 0; k < 16; k++) x[k] = with_addend(x[k], z, k * kM2, addend, m);
  }
  REN_UNROLL
  for (int k = 0; k < 16; k++) t[padded_out(g + k * kM2)] = x[k];
  __syncwarp();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = t[padded_out(stored_position(16 * g + k, kN))];
  inverse_levels<kS2, kS2 == 9 ? 8 : 4, kS2, 0>(x, w, node, 16 * g, q);
  __syncwarp();
  REN_UNROLL
  for (int k = 0; k < 16; k++) t[padded(16 * g + k)] = x[k];
  __syncwarp();
  if constexpr (kS2 == 9) {
    const int origin = 32 * (g >> 1) + (g & 1);
    REN_UNROLL
    for (int k = 0; k < 16; k++) x[k] = t[padded(origin + 2 * k)];
    inverse_levels<kS2, 4, 8, 1>(x, w, node, origin, q);
    REN_UNROLL
    for (int k = 0; k < 16; k++) t[padded(origin + 2 * k)] = x[k];
    __syncwarp();
  }
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = t[padded(g + k * kM2)];
  inverse_levels<kS2, 0, 4, kS2 - 4>(x, w, node, g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) out[k * kM2] = x[k];
}
