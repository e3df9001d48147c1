// Negacyclic NTT of length N = 2^REN_LOG_N (12..17), primes below 2^61, in two kernels per direction, and what is fused to its ends.
//
// N = N1 N2. The first S1 levels act on columns (stride N2), the last S2 levels on rows of N2 words. Each thread owns 16 words in
// registers; a kernel does 4 levels, exchanges through shared memory, does the rest:
//
//   columns: words k M + g of a column (M = N1 / 16) -> 4 levels -> shared -> words 16 g + k -> S1 - 4 levels
//   rows:    the same along a row, as many groups of levels as it takes, plus a trip through shared memory that puts the values into stored order and
//            makes the global stores coalesced. Where the threads of a row belong to one warp, __syncwarp orders the exchange. A key product keeps sums of
//            128 bits beside the words, so its rows have 8 words per thread.
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
constexpr int kS1 = column_levels(kLogN), kS2 = kLogN - kS1, kN1 = 1 << kS1, kN2 = 1 << kS2;
constexpr int kM1 = kN1 / 16;
constexpr int kColumns = 16;       // columns per block: 128 contiguous bytes per row
constexpr int kThreads1 = kColumns * kM1;
constexpr int kThreads2 = 256;  // of a block of rows
static_assert(kS1 >= 5 && kS1 <= 8 && kS2 <= 9, "16 words per thread in columns, two groups of levels");

__device__ __forceinline__ const ulonglong2* forward_twiddles(const Limb* limb) { return global_pointer<const ulonglong2>(__ldg(&limb->forward)); }
__device__ __forceinline__ const ulonglong2* inverse_twiddles(const Limb* limb) { return global_pointer<const ulonglong2>(__ldg(&limb->inverse)); }

// -- columns ------------------------------------------------------------------------------------------------------------------

// x[k]: word g + k M of a column, below 8q. out: the column's first word.
__device__ __forceinline__ void forward_column(u64 (&x)[16], u64* tile, const ulonglong2* w, u32 c, u32 g, u64 q, u64* out) {
  forward_levels<kS1, 0, 4, kS1 - 4, false>(x, w, 1, g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) tile[(g + k * kM1) * kColumns + c] = x[k];
  __syncthreads();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = tile[(16 * g + k) * kColumns + c];
  forward_levels<kS1, 4, kS1, 0, false>(x, w, 1, 16 * g, q);
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
// (d gridDim.y + t) of `constants`, alpha + 1 words each. The first limb here is number `first_limb` of all that digits are converted to. Limbs a digit owns
// are left out where keep_own: their transform is known.
extern "C" __global__ void __launch_bounds__(kThreads1)
convert_columns(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 digits, u32 alpha, u32 limbs, u32 keep_own,
                u32 first_limb) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 d = blockIdx.z % digits, at = first + blockIdx.z / digits * stride;
  const Digit digit = digit_of(d, alpha, limbs);
  if (keep_own && digit.owns(first_limb + blockIdx.y)) return;  // the whole block
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const u32 c = threadIdx.x % kColumns, g = threadIdx.x / kColumns, column = blockIdx.x * kColumns + c;
  const size_t out_row = (size_t)d * gridDim.y + blockIdx.y;
  const Conversion conversion = {operand<const u64>(block, at) + ((size_t)digit.first << kLogN), constants + out_row * (alpha + 1), digit.count, kN};
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k += 8) conversion.values<8, kM1 * kN2>((g + k * kM1) * kN2 + column, x + k, m);
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
  inverse_levels<kS1, 4, kS1, 0, false>(x, w, 1, 16 * g, q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) tile[(16 * g + k) * kColumns + c] = x[k];
  __syncthreads();
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = tile[(g + k * kM1) * kColumns + c];
  inverse_levels<kS1, 1, 4, kS1 - 4, false>(x, w, 1, g, q);
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

// How rows are shared out when each thread owns W words of one. Word j lies at a padded place: with these spare words strides of 16, and of 2 or 8 after the
// last level, meet all banks.
template <int W> struct Rows {
  static constexpr int log_w = W == 16 ? 4 : 3;
  static constexpr int lanes = kN2 / W;
  static constexpr int pitch = kN2 + kN2 / W;
  static __device__ __forceinline__ int padded(int j) { return j + (j >> 4); }
  static __device__ __forceinline__ int padded_out(int j) { return W == 16 ? j + 8 * (j >> 7) + ((j >> 6) & 1) : j + 8 * (j >> 6); }
  static __device__ __forceinline__ void sync() {
    if constexpr (lanes <= 32) __syncwarp();
    else __syncthreads();
  }
};

// The place of a thread: word g of row `row` first, then every lanes-th; t is the row's part of shared memory.
struct Row {
  u32 g, row;
  u64* t;
};
template <int W> __device__ __forceinline__ Row row_of(u64* tile) {
  const u32 r = threadIdx.x / Rows<W>::lanes;
  return {threadIdx.x % Rows<W>::lanes, blockIdx.x * (blockDim.x / Rows<W>::lanes) + r, tile + r * Rows<W>::pitch};
}

// The group of levels that begins with `level`: log W of them, or those that are left. Its words are `step` apart, from `origin` on.
template <int W, int level> struct Levels {
  static constexpr int log_w = Rows<W>::log_w;
  static constexpr int last = level + log_w < kS2 ? level + log_w : kS2;
  static constexpr int log_step = level + log_w < kS2 ? kS2 - level - log_w : 0;
  static __device__ __forceinline__ u32 origin(u32 g) { return (g >> log_step << (log_step + log_w)) + (g & ((1u << log_step) - 1)); }
  static __device__ __forceinline__ void load(u64 (&x)[W], const Row& p) {
    REN_UNROLL
    for (int k = 0; k < W; k++) x[k] = p.t[Rows<W>::padded(origin(p.g) + (k << log_step))];
  }
  static __device__ __forceinline__ void store(const u64 (&x)[W], const Row& p) {
    REN_UNROLL
    for (int k = 0; k < W; k++) p.t[Rows<W>::padded(origin(p.g) + (k << log_step))] = x[k];
  }
};

// All levels from `level` on. x: the words of that group; afterwards those of the last one. A group's words are stored where they were read.
template <int W, int level> __device__ __forceinline__ void forward_groups(u64 (&x)[W], const Row& p, const ulonglong2* w, u64 q) {
  using Group = Levels<W, level>;
  if constexpr (level > 0) Group::load(x, p);
  forward_levels<kS2, level, Group::last, Group::log_step, true>(x, w, kN1 + p.row, Group::origin(p.g), q);
  if constexpr (Group::last < kS2) {
    if constexpr (level == 0) Rows<W>::sync();  // a former call has read its last words
    Group::store(x, p);
    Rows<W>::sync();
    forward_groups<W, Group::last>(x, p, w, q);
  }
}

// x: the words of the last group; afterwards those of the first one.
template <int W, int level> __device__ __forceinline__ void inverse_groups(u64 (&x)[W], const Row& p, const ulonglong2* w, u64 q) {
  using Group = Levels<W, level>;
  if constexpr (Group::last < kS2) {
    inverse_groups<W, Group::last>(x, p, w, q);
    Levels<W, Group::last>::store(x, p);
    Rows<W>::sync();
    Group::load(x, p);
  }
  inverse_levels<kS2, level, Group::last, Group::log_step, true>(x, w, kN1 + p.row, Group::origin(p.g), q);
}

// x[k]: word g + k lanes of a row, below 8q -> the value at stored position g + k lanes, in [0, q). May be called again at once.
template <int W> __device__ __forceinline__ void forward_row(u64 (&x)[W], const Row& p, const ulonglong2* w, u64 q) {
  forward_groups<W, 0>(x, p, w, q);
  Rows<W>::sync();
  REN_UNROLL
  for (int k = 0; k < W; k++) p.t[Rows<W>::padded_out(stored_position(W * p.g + k, kN))] = canonical(x[k], q);
  Rows<W>::sync();
  REN_UNROLL
  for (int k = 0; k < W; k++) x[k] = p.t[Rows<W>::padded_out(p.g + k * Rows<W>::lanes)];
}

// x[k]: the value at stored position g + k lanes, below 2q -> word g + k lanes of a row, below 2q.
template <int W> __device__ __forceinline__ void inverse_row(u64 (&x)[W], const Row& p, const ulonglong2* w, u64 q) {
  REN_UNROLL
  for (int k = 0; k < W; k++) p.t[Rows<W>::padded_out(p.g + k * Rows<W>::lanes)] = x[k];
  Rows<W>::sync();
  REN_UNROLL
  for (int k = 0; k < W; k++) x[k] = p.t[Rows<W>::padded_out(stored_position(W * p.g + k, kN))];
  Rows<W>::sync();
  inverse_groups<W, 0>(x, p, w, q);
}

constexpr int kM2 = Rows<16>::lanes, kM8 = Rows<8>::lanes;

// Operands: x (between the kernels), own, out, all [digit][limb][N] but `own`, [limb][N]. Limbs a digit owns are copied from `own` where keep_own.
extern "C" __global__ void __launch_bounds__(kThreads2)
forward_rows(const u64* block, u32 first, u32 stride, const Limb* ring, u32 digits, u32 alpha, u32 limbs, u32 keep_own, u32 first_limb) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 d = blockIdx.z % digits, at = first + blockIdx.z / digits * stride;
  const Row p = row_of<16>(tile);
  const Limb* limb = ring + blockIdx.y;
  const size_t in_limb = (size_t)p.row * kN2 + p.g, row = (((size_t)d * gridDim.y + blockIdx.y) << kLogN) + in_limb;
  u64* out = operand<u64>(block, at + 2) + row;
  u64 x[16];
  if (keep_own && digit_of(d, alpha, limbs).owns(first_limb + blockIdx.y)) {  // the whole block
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

// The end of a division in the NTT domain, and X -> X^g of its result where g_inverse is not 1. Operands: the transform of c (between the kernels), x, z, out.
extern "C" __global__ void __launch_bounds__(kThreads2)
divide_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 g_inverse) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of<16>(tile);
  const Limb* limb = ring + blockIdx.y;
  const Modulus m = modulus_of(limb);
  const u32 in_limb = p.row * kN2 + p.g;
  const u64* in = operand<const u64>(block, at) + ((size_t)blockIdx.y << kLogN) + in_limb;
  u64 x[16];
  REN_UNROLL
  for (int k = 0; k < 16; k++) x[k] = in[k * kM2];
  forward_row(x, p, forward_twiddles(limb), m.q);
  const Division division = division_of(block, at, constants, blockIdx.y, kN);
  REN_UNROLL
  for (int k = 0; k < 16; k++) {
    const u32 i = in_limb + k * kM2;
    division.store(i, g_inverse == 1 ? i : automorphism_source(i, g_inverse, kLogN), x[k], m);
  }
}

// The end of a key switch: finish the transform of each digit, multiply with both components of its key row, sum. Operands: digits (between the kernels), x,
// key [digit][2][key limb][N], b, a. index: the key limb of each limb. Limbs a digit owns are read from x where keep_own.
extern "C" __global__ void __launch_bounds__(kThreads2)
key_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* index, u32 digits, u32 alpha, u32 limbs, u32 keep_own, u32 first_limb,
         u32 key_limbs) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of<8>(tile);
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const ulonglong2* w = forward_twiddles(limb);
  const size_t in_limb = (size_t)p.row * kN2 + p.g, row = ((size_t)blockIdx.y << kLogN) + in_limb;
  const u64* digit_row = operand<const u64>(block, at) + row;
  const u64* own_row = operand<const u64>(block, at + 1) + row;
  const u64* key_row = operand<const u64>(block, at + 2) + (__ldg(index + blockIdx.y) << kLogN) + in_limb;
  const size_t component = (size_t)key_limbs << kLogN;
  Sum sums[2][8];
  REN_UNROLL
  for (int k = 0; k < 8; k++) sums[0][k] = sums[1][k] = {0, 0};
  for (u32 d = 0; d < digits; d++) {
    u64 x[8];
    if (keep_own && digit_of(d, alpha, limbs).owns(first_limb + blockIdx.y)) {  // the whole block
      REN_UNROLL
      for (int k = 0; k < 8; k++) x[k] = __ldg(own_row + k * kM8);
    } else {
      REN_UNROLL
      for (int k = 0; k < 8; k++) x[k] = __ldg(digit_row + k * kM8);
      forward_row(x, p, w, q);
    }
    REN_UNROLL
    for (int k = 0; k < 8; k++) {
      add_product(sums[0][k], x[k], __ldg(key_row + k * kM8));
      add_product(sums[1][k], x[k], __ldg(key_row + component + k * kM8));
    }
    if (d % kSumTerms == kSumTerms - 1) {
      const Modulus m = modulus_of(limb);
      REN_UNROLL
      for (int k = 0; k < 8; k++) {
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
  for (int k = 0; k < 8; k++) {
    b[k * kM8] = m.reduce(sums[0][k]);
    a[k * kM8] = m.reduce(sums[1][k]);
  }
}

// Operands: x, z, out (between the kernels); out may be x. The first z_rows limbs transform x + P z.
extern "C" __global__ void __launch_bounds__(kThreads2)
inverse_rows(const u64* block, u32 first, u32 stride, const Limb* ring, const Scale* scales, u32 z_rows) {
  REN_DYNAMIC_SHARED(u64, tile);
  const u32 at = first + blockIdx.z * stride;
  const Row p = row_of<16>(tile);
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q);
  const size_t row = ((size_t)blockIdx.y << kLogN) + (size_t)p.row * kN2 + p.g;
  const u64* in = operand<const u64>(block, at) + row;
  u64* out = operand<u64>(block, at + 2) + row;
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
  inverse_row(x, p, inverse_twiddles(limb), q);
  REN_UNROLL
  for (int k = 0; k < 16; k++) out[k * kM2] = x[k];
}
