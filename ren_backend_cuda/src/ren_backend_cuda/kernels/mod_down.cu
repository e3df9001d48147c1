// Division by dropped moduli: what is not a transform. Grid: x covers the n coefficients, y = limbs, z = batch of equal units.
#include "conversion.cuh"
#include "divide.cuh"

// The digits of a second stage (`lower_mod_down.py`): u_j <- centred u_j - c_j, c_j the conversion of the rows behind. Operands: the dropped rows, of which
// the first gridDim.y are u; the `terms` others are read. u_j in [0, q_j), both sides.
extern "C" __global__ void __launch_bounds__(256)
second_digits(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, u32 terms, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  u64* rows = operand<u64>(block, at);
  const Conversion conversion = {rows + (size_t)gridDim.y * n, constants + (size_t)blockIdx.y * (terms + 1), terms, n};
  u64* u = rows + (size_t)blockIdx.y * n + i;
  *u = shift_centre(sub_mod(*u, conversion.value(i, m), m.q), m.q);
}

// Coefficient domain: conversion and division in one. Operands: rows of digits, x, z, out.
extern "C" __global__ void __launch_bounds__(256)
divide(const u64* block, u32 first, u32 stride, const Limb* ring, const u64* constants, const u64* divisions, u32 terms, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = first + blockIdx.z * stride;
  if (i >= n) return;
  const Modulus m = modulus_of(ring + blockIdx.y);
  const Conversion conversion = {operand<const u64>(block, at), constants + (size_t)blockIdx.y * (terms + 1), terms, n};
  division_of(block, at, divisions, blockIdx.y, n).store(i, i, conversion.value(i, m), m);
}
