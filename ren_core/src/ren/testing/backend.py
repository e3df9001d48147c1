"""The conformance kit for backends.

    from ren.testing import BackendConformance

    class TestMine(BackendConformance):
        backend_name = "mine"

proves that the registered backend "mine" computes every kernel it declares as the reference backend does, to the last bit, and
keeps the contract of `ren.backend.protocol`: operands and bounds, aliasing, re-entrancy, refusal of what it does not declare.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from ren.backend.protocol import Backend, Capabilities, GraphRunner
from ren.backend.reference import ReferenceBackend
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import KernelUnsupportedError
from ren.numtheory.roots import ntt_exponents, primitive_root_2n
from ren.ops import KERNELS, Domain
from ren.ring import RingSpec
from ren.testing.cases import KernelCase, cases
from ren.testing.runner import assert_same, run_apart, run_in_arena, run_in_place, run_in_place_crossed, unit_of
from ren.testing.vectors import LARGE, SIZES, generator, operand, ring_of_width, widths

Words = NDArray[np.uint64]


class BackendConformance:
    """Base class of a backend's conformance tests; pytest collects the subclass.

    backend_name: the device to test, found as a user's `device=` is. Override `make_backend` for one that is not registered.
    sizes: degrees tested in full. every_width_up_to: degrees up to this one see moduli of every width, larger ones those at which
    representations change. large_size: degree of the spot checks, 0 for none.
    """

    backend_name: ClassVar[str] = ""
    sizes: ClassVar[Sequence[int]] = SIZES
    every_width_up_to: ClassVar[int] = 128
    large_size: ClassVar[int] = LARGE
    _made: ClassVar[Backend]

    def make_backend(self) -> Backend:
        """The backend under test; asked for once per class."""
        from ren.backend.select import get_backend

        return get_backend(self.backend_name)

    @pytest.fixture
    def backend(self) -> Backend:
        cls = type(self)
        if "_made" not in cls.__dict__:
            cls._made = self.make_backend()
        return cls._made

    @pytest.fixture
    def reference(self) -> ReferenceBackend:
        return ReferenceBackend()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "kernel" not in metafunc.fixturenames:
            return
        if "n" in metafunc.fixturenames:
            metafunc.parametrize(("kernel", "n"), [(k, n) for k in KERNELS for n in self.sizes], ids=lambda v: str(v))
        else:
            metafunc.parametrize("kernel", list(KERNELS))

    # -- what it says about itself -----------------------------------------------------------------------------------

    def test_describes_itself(self, backend: Backend) -> None:
        assert isinstance(backend, Backend)
        if self.backend_name:
            assert backend.name == self.backend_name
        told = backend.capabilities()
        assert isinstance(told, Capabilities)
        assert told.kernels, "declares no kernel"
        unknown = sorted(told.kernels - set(KERNELS))
        assert not unknown, f"declares kernels that do not exist: {unknown}"
        assert told.alignment >= 1 and told.alignment & (told.alignment - 1) == 0, "alignment must be a power of two"
        assert told == backend.capabilities(), "capabilities must not change"

    def test_refuses_unknown_kernels(self, backend: Backend) -> None:
        unit = unit_of(next(cases("copy", 8, (20,))), ReferenceBackend())
        with pytest.raises(KernelUnsupportedError):
            backend.compile(replace(unit, kernel="no_such_kernel"))

    # -- memory ------------------------------------------------------------------------------------------------------

    def test_memory_keeps_what_is_copied_in(self, backend: Backend) -> None:
        data = generator("memory").integers(0, 1 << 64, 200, np.uint64)
        memory = backend.alloc(256)
        backend.copyin(memory, 0, np.zeros(256, np.uint64))
        backend.copyin(memory, 13, data)
        backend.synchronize()
        assert np.array_equal(backend.copyout(memory, 13, 200), data)
        assert not backend.copyout(memory, 0, 13).any() and not backend.copyout(memory, 213, 43).any()

    def test_copies_are_independent(self, backend: Backend) -> None:
        data = np.arange(64, dtype=np.uint64)
        memory = backend.alloc(64)
        backend.copyin(memory, 0, data)
        data[:] = 7  # what is copied in is copied
        first = backend.copyout(memory, 0, 64)
        first[:] = 9  # and so is what is copied out
        assert backend.copyout(memory, 0, 64).tolist() == list(range(64))
        other = backend.alloc(64)
        backend.copyin(other, 0, first)
        assert backend.copyout(memory, 0, 64).tolist() == list(range(64)), "two memories overlap"

    # -- kernels -----------------------------------------------------------------------------------------------------

    def test_kernel(self, backend: Backend, reference: ReferenceBackend, kernel: str, n: int) -> None:
        """Equal to the reference backend on every case, or refused where not declared."""
        for case in cases(kernel, n, widths(n, every=n <= self.every_width_up_to)):
            self.check(backend, reference, case)

    def test_large_ring(self, backend: Backend, reference: ReferenceBackend, kernel: str) -> None:
        """Spot checks at the degree `large_size`."""
        if not self.large_size:
            pytest.skip("large_size = 0")
        for bits in (45, 61):
            case = next(cases(kernel, self.large_size, (bits,)))
            self.check(backend, reference, replace(case, operands=case.operands[-1:]))

    def test_large_transform_by_evaluation(self, backend: Backend, reference: ReferenceBackend) -> None:
        """Values of a transform at random points against Horner's rule in Python integers, independent of the reference."""
        n = self.large_size or max(self.sizes)
        ring = ring_of_width(n, 50, 2)
        rng = generator("evaluation", n)
        coefficients = operand(ring, "mixed", rng)
        case = KernelCase("ntt", ring, (), (((coefficients,), ()),), (coefficients.size,))
        if not _supported(backend, case):
            self.check(backend, reference, case)
            return
        unit = unit_of(case, backend)
        (values,) = run_apart(backend, unit, backend.compile(unit), (coefficients,), ())
        for limb, q in enumerate(ring.moduli):
            row = coefficients[limb * n : (limb + 1) * n].tolist()
            for position in (0, n - 1, *(int(i) for i in rng.integers(0, n, 2))):
                x = pow(primitive_root_2n(q, n), int(ntt_exponents(n)[position]), q)
                expected = 0
                for c in reversed(row):
                    expected = (expected * x + c) % q
                assert int(values[limb * n + position]) == expected, f"limb {limb}, position {position}"

    def check(self, backend: Backend, reference: ReferenceBackend, case: KernelCase) -> None:
        """Run one case on both backends in every arrangement of operands that the contract allows."""
        if not _supported(backend, case):
            with pytest.raises(KernelUnsupportedError):
                backend.compile(unit_of(case, reference))
            return
        unit = unit_of(case, backend)
        compiled = backend.compile(unit)
        plain = unit_of(case, reference)
        oracle = reference.compile(plain)
        expected = [run_apart(reference, plain, oracle, *operands) for operands in case.operands]
        for number, operands in enumerate(case.operands):
            assert_same(
                case, run_in_arena(backend, unit, compiled, *operands), expected[number], number, "in one arena"
            )
            if case.in_place:
                for way in (run_in_place, run_in_place_crossed)[: len(unit.inputs)]:
                    found = way(backend, unit, compiled, *operands)
                    assert_same(case, found, expected[number], number, way.__name__)
        again = run_apart(backend, unit, compiled, *case.operands[0])
        assert_same(case, again, expected[0], 0, "run again, in memories of their own")

    # -- threads -----------------------------------------------------------------------------------------------------

    def test_compiled_units_are_reentrant(self, backend: Backend, reference: ReferenceBackend, kernel: str) -> None:
        """Two threads run one compiled unit on different operands, many times."""
        case = max(islice(cases(kernel, 64, (40,)), 6), key=lambda c: len(c.operands))
        if not _supported(backend, case):
            return
        unit = unit_of(case, backend)
        compiled = backend.compile(unit)
        plain = unit_of(case, reference)
        expected = [run_apart(reference, plain, reference.compile(plain), *sets) for sets in case.operands]
        start = threading.Barrier(2)
        failures: list[BaseException] = []

        def work(first: int) -> None:
            try:
                start.wait(timeout=60)
                for i in range(first, first + 12):
                    number = i % len(case.operands)
                    found = run_in_arena(backend, unit, compiled, *case.operands[number])
                    assert_same(case, found, expected[number], number, "while another thread runs the same unit")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]

    # -- plans -------------------------------------------------------------------------------------------------------

    def test_plan(self, backend: Backend, reference: ReferenceBackend) -> None:
        """A chain of units over slots, through `graph` where the backend has one, bound to fresh buffers each time."""
        if not {"sample", "elementwise", "intt", "mod_down", "automorphism"} <= backend.capabilities().kernels:
            pytest.skip("needs sample, elementwise, intt, mod_down and automorphism")
        ring = ring_of_width(64, 40, 3)
        units, slots = _plan(ring, backend)
        plain_units, plain_slots = _plan(ring, reference)
        for draw in range(3):
            rng = generator("plan", draw)
            bound = [
                operand(ring, "mixed", rng),
                operand(RingSpec(2, ring.moduli), "mixed", rng)[::2].copy(),
                rng.integers(0, 1 << 64, 4, np.uint64),
            ]
            expected = _run_plan(reference, plain_units, plain_slots, bound, None)
            runner = backend.graph(units, slots)
            found = _run_plan(backend, units, slots, bound, runner)
            again = _run_plan(backend, units, slots, bound, runner)
            for e, f, a in zip(expected, found, again, strict=True):
                assert np.array_equal(e, f), "a plan differs from the reference backend"
                assert np.array_equal(e, a), "the second run of a plan differs from the first"


def _supported(backend: Backend, case: KernelCase) -> bool:
    told = backend.capabilities()
    widest = max(q.bit_length() for q in case.moduli)
    return case.kernel in told.kernels and told.min_n <= case.ring.n <= told.max_n and widest <= told.max_modulus_bits


def _plan(ring: RingSpec, backend: Backend) -> tuple[list[ExecUnit], list[Slot]]:
    """x, scalar, seed -> rescale(intt(x * r + scalar)) and its first limb under X -> X^5, r drawn from the seed.

    Slots: 0 x, 1 scalar, 2 seed, 3 a temporary, 4 and 5 outputs, 6 scratch.
    """
    n, words = ring.n, ring.limbs * ring.n
    low = ring.drop(1)
    x, scalar, seed, t = Operand(0, 0, words), Operand(1, 0, ring.limbs), Operand(2, 0, 4), Operand(3, 0, words)
    rescaled, first = Operand(4, 0, low.limbs * n), Operand(4, n, n)
    program = (2, 1, (("mul", 0, 1), ("addc", 2, 0)), (3,), Domain.NTT)
    units = [
        ExecUnit("sample", ring, ("uniform", None, 0), (seed,), (), (t,)),
        ExecUnit("elementwise", ring, program, (x, t), (scalar,), (t,)),
        ExecUnit("intt", ring, (), (t,), (), (t,)),
        ExecUnit("mod_down", ring, (1, 0, Domain.COEFF), (t,), (), (rescaled,)),
        ExecUnit("automorphism", low.take(1, 2), (5, Domain.COEFF), (first,), (), (Operand(5, 0, n),)),
    ]
    scratch = [backend.scratch_words(u) for u in units]
    units = [replace(u, scratch=(Operand(6, 0, s),)) if s else u for u, s in zip(units, scratch, strict=True)]
    step = backend.capabilities().alignment
    slots = [
        Slot(SlotKind.INPUT, words),
        Slot(SlotKind.SCALAR, ring.limbs),
        Slot(SlotKind.RANDOM, 4),
        Slot(SlotKind.TEMPORARY, words),
        Slot(SlotKind.OUTPUT, low.limbs * n),
        Slot(SlotKind.OUTPUT, n),
        Slot(SlotKind.TEMPORARY, max(*scratch, 1), arena_offset=-(-words // step) * step),
    ]
    return units, slots


def _run_plan(
    backend: Backend,
    units: Sequence[ExecUnit],
    slots: Sequence[Slot],
    bound: Sequence[Words],
    runner: GraphRunner | None,
) -> list[Words]:
    arena = backend.alloc(sum(s.arena_offset + s.words for s in slots if s.kind is SlotKind.TEMPORARY))
    views = [(arena if s.kind is SlotKind.TEMPORARY else backend.alloc(s.words), s.arena_offset) for s in slots]
    for (memory, offset), data in zip(views, bound, strict=False):
        backend.copyin(memory, offset, data)
    if runner is not None:
        runner(views)
    else:
        for unit in units:
            backend.compile(unit)([(views[o.slot][0], views[o.slot][1] + o.offset) for o in unit.operands])
    return [
        backend.copyout(views[i][0], views[i][1], s.words) for i, s in enumerate(slots) if s.kind is SlotKind.OUTPUT
    ]
