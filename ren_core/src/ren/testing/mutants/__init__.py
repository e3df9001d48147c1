"""Planted faults: backends that are wrong in one way each. A kit that cannot fail proves nothing, so each must be caught.

Every mutant is the reference backend with one fault of a kind that real kernels have had or nearly had: a reduction missed at an
edge, a twiddle one off, an order that only shows in large rings, a table shared between threads. `MUTANTS` lists them.
"""

from ren.testing.mutants import (  # importing a module registers its faults
    contract,
    elementwise,
    modulus,
    samples,
    transforms,
)
from ren.testing.mutants.base import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "contract", "elementwise", "modulus", "samples", "transforms"]
