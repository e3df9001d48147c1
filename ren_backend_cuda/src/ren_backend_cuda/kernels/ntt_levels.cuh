// Butterfly levels on W words in registers, for transforms of length 2^S rooted at a node of the whole transform.
//
// Forward: natural order in, bit-reversed order out; node i of the table is psi^bitreverse(i). Level s pairs words 2^(S-1-s) apart.
// Range note, forward: values stay below 8q < 2^64, input words may be anything below 8q; even levels reduce the upper operand below
// 4q, odd levels do not (4q -> 6q -> 8q). Range note, inverse: values stay below 2q, input in [0, 2q).
#pragma once
#include "modarith.cuh"

// Levels [first, last). Element k of x has index `origin + (k << log_step)`; `base` is the node of the root.
template <int S, int first, int last, int log_step, int W>
__device__ __forceinline__ void forward_levels(u64 (&x)[W], const ulonglong2* w, u32 base, u32 origin, u64 q) {
  REN_UNROLL
  for (int s = first; s < last; s++) {
    const int d = (1 << (S - 1 - s)) >> log_step;
    const u32 node = (base << s) + (origin >> (S - s));
    ulonglong2 t;
    REN_UNROLL
    for (int k = 0; k < W; k++) {  // one flat loop: nvcc does not fully unroll a third nested one, and x must stay in registers
      if (k & d) continue;
      if (k % (2 * d) == 0) t = __ldg(w + node + k / (2 * d));
      const u64 a = s % 2 == 0 ? subtract_once(x[k], 4 * q) : x[k], b = shoup_lazy(x[k + d], t.x, t.y, q);
      x[k] = a + b;
      x[k + d] = a - b + 2 * q;
    }
  }
}

template <int S, int first, int last, int log_step, int W>
__device__ __forceinline__ void inverse_levels(u64 (&x)[W], const ulonglong2* w, u32 base, u32 origin, u64 q) {
  REN_UNROLL
  for (int s = last - 1; s >= first; s--) {
    const int d = (1 << (S - 1 - s)) >> log_step;
    const u32 node = (base << s) + (origin >> (S - s));
    ulonglong2 t;
    REN_UNROLL
    for (int k = 0; k < W; k++) {
      if (k & d) continue;
      if (k % (2 * d) == 0) t = __ldg(w + node + k / (2 * d));
      const u64 a = x[k], b = x[k + d];
      x[k] = subtract_once(a + b, 2 * q);
      x[k + d] = shoup_lazy(a - b + 2 * q, t.x, t.y, q);
    }
  }
}

// [0, 8q) -> [0, q).
__device__ __forceinline__ u64 canonical(u64 x, u64 q) { return subtract_once(subtract_once(subtract_once(x, 4 * q), 2 * q), q); }
