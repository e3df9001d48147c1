// Butterfly levels on W words in registers, for transforms of length 2^S rooted at a node of the whole transform.
//
// Forward: natural order in, bit-reversed order out; node i is psi^bitreverse(i). Level s pairs words 2^(S-1-s) apart.
// Range note, forward: values stay below 8q < 2^64, input words may be anything below 8q; even levels reduce the upper operand below
// 4q, odd levels do not (4q -> 6q -> 8q). Range note, inverse: values stay below 2q, input in [0, 2q).
#pragma once
#include "modarith.cuh"
#include "order.cuh"

// Where the twiddle of node j0 + k of level s stands, behind the level's first one: in natural order, or in that of `row_twiddle` (S = log2 of the row's length). k is
// known when compiling, j0 a multiple of the nodes that a thread has.
template <int S, bool row_order> struct Nodes {
  int c;  // nodes of one group of 16 words
  __device__ __forceinline__ explicit Nodes(int s) : c(row_order && s > S - 4 ? 1 << (s - S + 4) : 1) {}
  __device__ __forceinline__ u32 first(u32 j0) const { return c == 1 ? j0 : (j0 % c << (S - 4)) + j0 / c; }
  __device__ __forceinline__ u32 next(int k) const { return c == 1 ? k : (k % c << (S - 4)) + k / c; }
};

// Levels [first, last). Element k of x has index `origin + (k << log_step)`; `base` is the node of the root.
template <int S, int first, int last, int log_step, bool row_order, int W>
__device__ __forceinline__ void forward_levels(u64 (&x)[W], const ulonglong2* w, u32 base, u32 origin, u64 q) {
  REN_UNROLL
  for (int s = first; s < last; s++) {
    const int d = (1 << (S - 1 - s)) >> log_step;
    const Nodes<S, row_order> nodes(s);
    const ulonglong2* node = w + (base << s) + nodes.first(origin >> (S - s));
    ulonglong2 t;
    REN_UNROLL
    for (int k = 0; k < W; k++) {  // one flat loop: nvcc does not fully unroll a third nested one, and x must stay in registers
      if (k & d) continue;
      if (k % (2 * d) == 0) t = __ldg(node + nodes.next(k / (2 * d)));
      const u64 a = s % 2 == 0 ? subtract_once(x[k], 4 * q) : x[k], b = shoup_lazy(x[k + d], t.x, t.y, q);
      x[k] = a + b;
      x[k + d] = a - b + 2 * q;
    }
  }
}

template <int S, int first, int last, int log_step, bool row_order, int W>
__device__ __forceinline__ void inverse_levels(u64 (&x)[W], const ulonglong2* w, u32 base, u32 origin, u64 q) {
  REN_UNROLL
  for (int s = last - 1; s >= first; s--) {
    const int d = (1 << (S - 1 - s)) >> log_step;
    const Nodes<S, row_order> nodes(s);
    const ulonglong2* node = w + (base << s) + nodes.first(origin >> (S - s));
    ulonglong2 t;
    REN_UNROLL
    for (int k = 0; k < W; k++) {
      if (k & d) continue;
      if (k % (2 * d) == 0) t = __ldg(node + nodes.next(k / (2 * d)));
      const u64 a = x[k], b = x[k + d];
      x[k] = subtract_once(a + b, 2 * q);
      x[k + d] = shoup_lazy(a - b + 2 * q, t.x, t.y, q);
    }
  }
}

// [0, 8q) -> [0, q).
__device__ __forceinline__ u64 canonical(u64 x, u64 q) { return subtract_once(subtract_once(subtract_once(x, 4 * q), 2 * q), q); }
