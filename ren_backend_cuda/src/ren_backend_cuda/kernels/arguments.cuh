// The argument block: 8-byte words in device memory, word i the address of operand i of a plan. What is fixed for a plan (numbers of operands, sizes,
// tables) is a by-value argument and stays frozen in a captured graph; addresses change with every run and come from here.
#pragma once
#include "ren_device.cuh"

// The address `word` as a pointer to global memory.
template <class T> __device__ __forceinline__ T* global_pointer(u64 word) { return reinterpret_cast<T*>(REN_GLOBAL(word)); }

template <class T> __device__ __forceinline__ T* operand(const u64* block, u32 index) { return global_pointer<T>(__ldg(block + index)); }
