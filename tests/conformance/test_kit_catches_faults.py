"""The kit fails on every planted fault, and says what is wrong; on the reference backend itself it passes."""

import subprocess
import sys
from itertools import chain

import pytest
from ren.backend.protocol import Capabilities
from ren.backend.reference import ReferenceBackend
from ren.errors import KernelUnsupportedError
from ren.ops import KERNELS
from ren.testing import BackendConformance
from ren.testing.mutants import MUTANTS

REFERENCE = ReferenceBackend()


def kit_tests(kernel):
    """The kit's tests that concern one kernel at small degrees, or all that are not about one kernel's values."""
    kit = BackendConformance()
    if kernel is not None:
        return [lambda b, n=n: kit.test_kernel(b, REFERENCE, kernel, n) for n in (2, 8, 64, 256)]
    contract = [
        kit.test_describes_itself,
        kit.test_refuses_unknown_kernels,
        kit.test_memory_keeps_what_is_copied_in,
        kit.test_copies_are_independent,
        lambda b: kit.test_plan(b, REFERENCE),
    ]
    kernels = ("mod_down", "intt", "ntt")
    values = (lambda b, k=k: kit.test_kernel(b, REFERENCE, k, 8) for k in kernels)
    threads = (lambda b, k=k: kit.test_compiled_units_are_reentrant(b, REFERENCE, k) for k in KERNELS)
    return list(chain(contract, values, threads))


def failures(backend, kernel):
    for test in kit_tests(kernel):
        try:
            test(backend)
        except (Exception, pytest.fail.Exception) as error:
            yield str(error)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_fault_is_caught(mutant):
    first = next(failures(mutant.make(), mutant.kernel), None)
    assert first is not None, f"the kit passes on a backend where {mutant.name}"
    if mutant.kernel is not None:
        assert first.startswith(mutant.kernel), "the message opens with the unit at fault"


def test_there_are_enough_faults():
    assert len(MUTANTS) >= 40
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert {m.kernel for m in MUTANTS} - {None} == set(KERNELS)


@pytest.mark.parametrize("kernel", [None, "ntt"])
def test_the_reference_backend_passes(kernel):
    assert not list(failures(ReferenceBackend(), kernel))


class Narrow(ReferenceBackend):
    """Declares transforms only, up to degree 64 and 50 bits; `strict` says whether it refuses the rest."""

    def __init__(self, strict):
        self.strict = strict

    def capabilities(self):
        return Capabilities(kernels=frozenset({"ntt", "intt"}), min_n=4, max_n=64, max_modulus_bits=50)

    def compile(self, unit):
        told = self.capabilities()
        widest = max(q.bit_length() for q in unit.ring.moduli)
        fits = told.min_n <= unit.ring.n <= told.max_n and widest <= told.max_modulus_bits
        if self.strict and not (unit.kernel in told.kernels and fits):
            raise KernelUnsupportedError(f"{unit.kernel} for {unit.ring} is not declared")
        return super().compile(unit)


@pytest.mark.parametrize(("kernel", "n"), [("mod_down", 8), ("ntt", 2), ("ntt", 64), ("ntt", 128)])
def test_what_is_not_declared_must_be_refused(kernel, n):
    """Computing it all the same is a fault, even when the result is right."""
    kit = BackendConformance()
    kit.test_kernel(Narrow(strict=True), REFERENCE, kernel, n)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        kit.test_kernel(Narrow(strict=False), REFERENCE, kernel, n)


def test_a_third_party_needs_three_lines(tmp_path):
    """The kit as a stranger uses it: a test file of its own, strict settings, a faulty backend and a right one."""
    (tmp_path / "test_mine.py").write_text(
        "from ren.testing import BackendConformance\n"
        "from ren.testing.mutants import MUTANTS\n"
        "class Small(BackendConformance):\n"
        "    sizes, large_size = (8,), 0\n"
        "class TestMine(Small):\n"
        "    def make_backend(self): return next(m for m in MUTANTS if m.name == 'components_swapped').make()\n"
        "class TestRight(Small):\n"
        "    backend_name = 'reference'\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--strict-markers",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-k",
        "gadget_product or copy or itself",
        "test_mine.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert failed
    assert all("TestMine" in line and "gadget_product" in line for line in failed), done.stdout
