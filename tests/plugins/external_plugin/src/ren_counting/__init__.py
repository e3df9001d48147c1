"""A backend for Ren that counts the kernels it runs."""
