// Random polynomials from a seed, as `ren.numtheory.sampling` defines them to the last bit. Operands: seed (4 words), out.
//
// Grid: x covers n / 16 threads (8 threads make the 128 words of a group), y = limbs for `uniform`, else 1, z = batch of equal units. Rows
// shorter than a group take its first words.
#include "chacha.cuh"
#include "modarith.cuh"

enum Tag { kUniform, kTernary, kGaussian, kSparseTernary };

struct Place {
  u32 group, pair;
  // Coefficient of word w.
  __device__ __forceinline__ u32 coefficient(u32 w) const { return group * kGroupWords + 8 * w + pair; }
};
__device__ __forceinline__ Place place_of() {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  return {t / 8, t % 8};
}

// Limb j from stream + j. Words at or above floor(2^64 / q) q are drawn again from the next attempt, each coefficient on its own: how often depends on random
// words that are thrown away, so timing says nothing about what is kept.
extern "C" __global__ void __launch_bounds__(64)
uniform(const u64* block, u32 first, u32 stride, const Limb* ring, u32 stream, u32 n) {
  const Place p = place_of();
  if (p.coefficient(0) >= n) return;
  const u32 at = first + blockIdx.z * stride;
  const Limb* limb = ring + blockIdx.y;
  const u64 q = __ldg(&limb->q), inv64 = __ldg(&limb->inv64), limit = inv64 * q;
  Stream s = stream_of(operand<const u64>(block, at), stream + blockIdx.y, kUniform);
  u64 words[kThreadWords];
  s.words(p.group, p.pair, words);
  for (;;) {
    bool refused = false;
    REN_UNROLL
    for (int w = 0; w < 16; w++) refused |= words[w] >= limit && p.coefficient(w) < n;
    if (!refused) break;
    s.attempt++;
    u64 next[kThreadWords];
    s.words(p.group, p.pair, next);
    REN_UNROLL
    for (int w = 0; w < 16; w++) words[w] = words[w] >= limit ? next[w] : words[w];
  }
  u64* out = operand<u64>(block, at + 1) + (size_t)blockIdx.y * n;
  REN_UNROLL
  for (int w = 0; w < 16; w++) {
    if (p.coefficient(w) < n) out[p.coefficient(w)] = reduce_word(words[w], q, inv64);
  }
}

// A small integer, size < 2^32 with a sign, as a residue: a modulus may be narrower than the integer.
__device__ __forceinline__ u64 residue(u32 size, bool negative, u64 q) {
  const u64 r = size < q ? size : size % (u32)q;
  return negative ? negate_mod(r, q) : r;
}

// size[w]: absolute value of word w, bit w of signs: it is negative.
__device__ __forceinline__ void store_small(const u32 (&size)[16], u32 signs, const Place& p, const Limb* ring, u32 limbs, u64* out, u32 n) {
  out += p.coefficient(0);
  for (u32 j = 0; j < limbs; j++) {
    const u64 q = __ldg(&ring[j].q);
    REN_UNROLL
    for (int w = 0; w < 16; w++) {
      if (p.coefficient(w) < n) out[8 * w] = residue(size[w], signs >> w & 1, q);
    }
    out += n;
  }
}

// -1, 0, 1 below ceil(2^64 / 3), below ceil(2^65 / 3), and from there on.
extern "C" __global__ void __launch_bounds__(64)
ternary(const u64* block, u32 first, u32 stride, const Limb* ring, u32 stream, u32 limbs, u32 n) {
  const Place p = place_of();
  if (p.coefficient(0) >= n) return;
  const u32 at = first + blockIdx.z * stride;
  const Stream s = stream_of(operand<const u64>(block, at), stream, kTernary);
  u64 words[kThreadWords];
  s.words(p.group, p.pair, words);
  const u64 low = 0x5555555555555556ull, high = 0xaaaaaaaaaaaaaaabull;
  u32 size[16], signs = 0;
  REN_UNROLL
  for (int w = 0; w < 16; w++) {
    size[w] = words[w] < low || words[w] >= high;
    signs |= (u32)(words[w] < low) << w;
  }
  store_small(size, signs, p, ring, limbs, operand<u64>(block, at + 1), n);
}

// Bit 0 is the sign; the upper 63 bits are compared with every threshold, so that time does not depend on the sample.
extern "C" __global__ void __launch_bounds__(64)
gaussian(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* thresholds, u32 count, u32 stream, u32 limbs, u32 n) {
  const Place p = place_of();
  if (p.coefficient(0) >= n) return;
  const u32 at = first + blockIdx.z * stride;
  const Stream s = stream_of(operand<const u64>(block, at), stream, kGaussian);
  u64 words[kThreadWords];
  s.words(p.group, p.pair, words);
  u32 size[16], signs = 0;
  REN_UNROLL
  for (int w = 0; w < 16; w++) {
    size[w] = 0;
    signs |= (u32)(words[w] & 1) << w;
  }
  for (u32 k = 0; k < count; k++) {
    const u64 threshold = __ldg(thresholds + k);
    REN_UNROLL
    for (int w = 0; w < 16; w++) size[w] += words[w] >> 1 >= threshold;
  }
  store_small(size, signs, p, ring, limbs, operand<u64>(block, at + 1), n);
}

// Zeroes for the positions that a sparse draw leaves alone. Operands: seed, out. Grid: x covers limbs n words.
extern "C" __global__ void __launch_bounds__(256)
clear_rows(const u64* block, u32 first, u32 stride, u64 words) {
  u64* out = operand<u64>(block, first + blockIdx.z * stride + 1);
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (u64)gridDim.x * blockDim.x) out[i] = 0;
}

// Floyd's subset algorithm is sequential: eight threads make key stream, the first of them walks through it. out holds zeroes. Secret keys are drawn this way once;
// which words are read depends on positions drawn, as on the CPU.
extern "C" __global__ void __launch_bounds__(8)
sparse_ternary(const u64* block, u32 first, u32 stride, const Limb* ring, u32 weight, u32 stream, u32 limbs, u32 n) {
  __shared__ u64 stock[kGroupWords];
  __shared__ u32 finished;
  const u32 at = first + blockIdx.z * stride;
  u64* out = operand<u64>(block, at + 1);
  const Stream s = stream_of(operand<const u64>(block, at), stream, kSparseTernary);
  u32 drawn = 0, position = 0;
  bool want_sign = false;
  for (u32 group = 0;; group++) {
    u64 words[kThreadWords];
    s.words(group, threadIdx.x, words);
    REN_UNROLL
    for (int w = 0; w < 16; w++) stock[8 * w + threadIdx.x] = words[w];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (u32 i = 0; i < kGroupWords && drawn < weight; i++) {
        const u64 word = stock[i];
        if (!want_sign) {
          const u64 bound = n - weight + drawn + 1;
          if (word * bound < (0 - bound) % bound) continue;  // 2^64 mod bound
          position = (u32)__umul64hi(word, bound);
          if (out[position]) position = n - weight + drawn;
          want_sign = true;
        } else {
          for (u32 j = 0; j < limbs; j++) out[(size_t)j * n + position] = word & 1 ? __ldg(&ring[j].q) - 1 : 1;
          want_sign = false;
          drawn++;
        }
      }
      finished = drawn == weight;
    }
    __syncthreads();
    if (finished) return;  // the next barrier comes before the first thread writes it again
  }
}
