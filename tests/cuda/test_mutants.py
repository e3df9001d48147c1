"""A test of the tests: a kernel that is wrong only at large degrees, in an index that constant data would not show, fails the comparison of plans.

Each mutant is right at n = 2^12. What is compared at 2^13 here is compared at every larger degree by test_conformance.py.
"""

from __future__ import annotations

import shutil

import pytest
from emulator import MISSING, EmulatedDevice
from plans import PLANS, differ, results
from ren.backend.select import get_backend
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.source import KERNELS

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

#: What -> (text in ntt.cu, what it becomes where kLogN is not 12, in which plan).
MUTANTS = {
    "key rows of the next digit": ("key_row += 2 * component;", "key_row += component;", "rotation"),
    "the automorphism after a division": (
        "g_inverse == 1 ? i : automorphism_source(i, g_inverse, kLogN)",
        "i",
        "rotation",
    ),
    "component of the key": ("__ldg(key_row + component + k * kM8)", "__ldg(key_row + k * kM8)", "rotation"),
    "limb of the key": ("__ldg(index + blockIdx.y) << kLogN", "(u64)blockIdx.y << kLogN", "product"),
    "rows of the next digit": ("digit_row += (size_t)gridDim.y << kLogN;", "digit_row += 0;", "product"),
    "limbs that a digit owns": ("__ldg(own_row + k * kM8)", "__ldg(own_row)", "rotation"),
    "digits of a conversion": ("((size_t)digit.first << kLogN)", "0", "product"),
    "limb of z": ("with_addend(x[k], z, k * kM2, addend, m)", "with_addend(x[k], z, 0, addend, m)", "product"),
}
QUICK = ("key rows of the next digit", "the automorphism after a division")


def mutated(text, old, new):
    assert text.count(old) == 1, old
    if old.endswith(";"):
        return text.replace(old, f"if constexpr (kLogN == 12) {old} else {new}")
    return text.replace(old, f"(kLogN == 12 ? {old} : {new})")


@pytest.mark.parametrize("what", [pytest.param(w, marks=[] if w in QUICK else pytest.mark.full) for w in MUTANTS])
def test_a_wrong_index_is_found(what, tmp_path):
    old, new, name = MUTANTS[what]
    kernels = tmp_path / "kernels"
    shutil.copytree(KERNELS, kernels)
    (kernels / "ntt.cu").write_text(mutated((KERNELS / "ntt.cu").read_text(), old, new))
    plan = PLANS[name](1 << 13)
    found = results(CudaBackend(EmulatedDevice(kernels=kernels)), plan)
    assert differ(found, results(get_backend("cpu"), plan)), "the comparison does not see it"
