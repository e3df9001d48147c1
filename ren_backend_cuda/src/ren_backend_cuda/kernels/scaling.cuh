// What an inverse transform multiplies its coefficients by, and the digits that come of it.
#pragma once
#include "modarith.cuh"

// A row per limb. factor: f n^-1 and its quotient. root: f n^-1 times the inverse twiddle of node 1, for the half of the coefficients that the
// last level multiplies. addend: P of `x + P z`, for the limbs that have z.
struct Scale {
  u64 factor, factor_s, root, root_s, addend, pad[3];
};

// x + P z for a word of the input of an inverse transform; z is null where the limb has none.
__device__ __forceinline__ u64 with_addend(u64 x, const u64* z, u32 at, u64 addend, const Modulus& m) {
  return z ? add_mod(x, m.multiply(__ldg(z + at), addend), m.q) : x;
}

// y in [0, 2q) -> [0, q), shifted by floor(q/2) where a centred digit is wanted.
__device__ __forceinline__ u64 finished(u64 y, bool centred, u64 q) {
  const u64 r = subtract_once(y, q);
  return centred ? shift_centre(r, q) : r;
}
