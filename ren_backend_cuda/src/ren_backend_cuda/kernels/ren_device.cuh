// The one header each kernel file includes first. NVRTC has no system headers at all, so neither have the kernels.
//
// What a device compiler and another compiler have to be told differently goes through the three REN_ macros below. Whoever compiles this
// source for something else than a GPU defines them beforehand.
#pragma once

#ifndef REN_UNROLL
#define REN_UNROLL _Pragma("unroll")
// A pointer that was loaded as a word has no known address space, and every access becomes a generic LD / ST. The
// conversion (the identity on addresses) tells the compiler that it is global: LDG / STG.
#define REN_GLOBAL(word) __cvta_global_to_generic(word)
// One untyped symbol, because two kernels of a module may not declare `extern __shared__` arrays of different types.
#define REN_DYNAMIC_SHARED(type, name)                      \
  extern __shared__ __align__(16) unsigned char ren_dyn_[]; \
  type* name = reinterpret_cast<type*>(ren_dyn_)
#endif

typedef unsigned long long u64;  // never uint64_t: it is `unsigned long` on some hosts and would not match the intrinsics
typedef unsigned int u32;
typedef long long i64;

// Argument block: a device-side array of 8-byte words, each the address of an operand (arguments.cuh).
template <class T> __device__ __forceinline__ T* slot(const u64* block, int index) {
  return reinterpret_cast<T*>(REN_GLOBAL(__ldg(block + index)));
}
