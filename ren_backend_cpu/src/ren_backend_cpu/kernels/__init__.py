"""Numba kernels. One file per notion, named as in the CUDA backend; `emit` and `arith` are the vocabulary they share."""
