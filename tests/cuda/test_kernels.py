"""Kernels beyond the conformance kit: long sums, tables, programs of the interpreter, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice
from ren.backend.reference import ReferenceBackend
from ren.backend.select import get_backend
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import KernelOperandError, KernelUnsupportedError
from ren.numtheory.roots import bit_reverse, primitive_root_2n
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.runner import run_apart
from ren.testing.vectors import generator, operand, primes_of_width, ring_of_width
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.lower_elementwise import CODE, LAST, MEMORY, PLACE_BITS, program
from ren_backend_cuda.peephole import fuse
from ren_backend_cuda.tables import Tables, limb_record

from ren_backend_cuda import lower_key_switch

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def device():
    return EmulatedDevice()


@pytest.fixture(scope="module")
def backend(device):
    return CudaBackend(device)


def unit(kernel, ring, params, inputs, outputs, scalars=()):
    sizes = [*inputs, *scalars, *outputs]
    places = [Operand(k, 0, words) for k, words in enumerate(sizes)]
    a, b = len(inputs), len(inputs) + len(scalars)
    return ExecUnit(kernel, ring, params, tuple(places[:a]), tuple(places[a:b]), tuple(places[b:]))


def same(backend, oracle, made, *inputs):
    """The unit on both backends."""
    scratch = oracle.scratch_words(made)
    other = made
    if scratch:
        place = Operand(len(made.operands), 0, scratch)
        other = ExecUnit(made.kernel, made.ring, made.params, made.inputs, made.scalars, made.outputs, (place,))
    expected = run_apart(oracle, other, oracle.compile(other), inputs, ())
    found = run_apart(backend, made, backend.compile(made), inputs, ())
    for e, f in zip(expected, found, strict=True):
        assert np.array_equal(e, f)


# -- sums of more products than 128 bits hold ------------------------------------------------------------------------

MANY = 70


def test_conversion_of_many_limbs(backend):
    ring = ring_of_width(16, 61, MANY + 2)
    made = unit("mod_down", ring, (MANY, 0, Domain.COEFF), (ring.limbs * 16,), (2 * 16,))
    same(backend, ReferenceBackend(), made, operand(ring, "half", generator("many")))


def test_exact_conversion_of_many_limbs(backend):
    moduli = primes_of_width(16, 61, MANY + 2)
    ring, new = RingSpec(16, moduli[:MANY]), moduli[MANY:]
    made = unit("basis_extend", ring, ("exact", new), (MANY * 16,), ((MANY + 2) * 16,))
    same(backend, ReferenceBackend(), made, operand(ring, "minus_one", generator("exact")))


@pytest.mark.parametrize("n", [16, 4096])
def test_key_product_of_many_digits(backend, n):
    digits = 40 if n == 16 else 34
    moduli = primes_of_width(n, 61, digits + 1)
    ring, special = RingSpec(n, moduli[:digits]), moduli[digits:]
    wide = ring.extend(special)
    rng = generator("digits")
    key = np.concatenate([operand(wide, "minus_one", rng) for _ in range(2 * digits)])
    params = (1, special, Domain.NTT, wide.limbs, tuple(range(wide.limbs)))
    made = unit("key_switch", ring, params, (digits * n, key.size), (wide.limbs * n,) * 2)
    oracle = ReferenceBackend() if n == 16 else get_backend("cpu")
    same(backend, oracle, made, operand(ring, "minus_one", rng), key)


@pytest.mark.parametrize("domain", Domain)
def test_key_switch_in_chunks_of_targets(device, monkeypatch, domain):
    """As rings take it whose digits do not fit the cache: here two targets at a time, the last chunk narrower."""
    n, limbs, alpha = 4096, 5, 2
    monkeypatch.setattr(lower_key_switch, "_CHUNK_WORDS", 2 * 3 * n)
    moduli = primes_of_width(n, 50, limbs + 2)
    ring, special = RingSpec(n, moduli[:limbs]), moduli[limbs:]
    wide = ring.extend(special)
    rng = generator("chunks")
    key = np.concatenate([operand(wide, "mixed", rng) for _ in range(6)])
    params = (alpha, special, domain, wide.limbs, tuple(range(wide.limbs)))
    made = unit("key_switch", ring, params, (limbs * n, key.size), (wide.limbs * n,) * 2)
    before = len(device.launched)
    same(CudaBackend(device), get_backend("cpu"), made, operand(ring, "mixed", rng), key)
    assert [launch.function.name for launch in list(device.launched)[before:]].count("key_rows") == 4


# -- tables ----------------------------------------------------------------------------------------------------------


def table_order(n):
    """Where each node stands: natural order, but in the last four levels of a row of a large ring the groups of 16 words side by side."""
    order = np.arange(n)
    if n < 4096:
        return order
    log_n = n.bit_length() - 1
    s1 = log_n // 2
    s2 = log_n - s1
    for s in range(s2 - 3, s2):
        groups, c = 1 << (s2 - 4), 1 << (s - s2 + 4)  # groups of a row, nodes of a group
        first, nodes = 1 << (s1 + s), np.arange(1 << s)
        rows = np.arange(1 << s1)[:, None] << s
        order[first : 2 * first] = (first + rows + nodes % c * groups + nodes // c).reshape(-1)
    return order


@pytest.mark.parametrize(("n", "bits"), [(2, 3), (64, 61), (256, 20), (4096, 50), (8192, 61)])
def test_twiddles_made_on_the_device(device, n, bits):
    moduli = primes_of_width(n, bits, 2)
    table = Tables(device).ring(n, moduli)
    assert device.download(table.memory, 0, 1)[0] == moduli[0]
    order = table_order(n)
    for q, memory in zip(moduli, table.keep, strict=True):
        found = device.download(memory, 0, 4 * n).reshape(2, n, 2)[:, order]
        psi = primitive_root_2n(q, n)
        for root, pairs in zip((psi, pow(psi, -1, q)), found, strict=True):
            powers = [1]
            for _ in range(n - 1):
                powers.append(powers[-1] * root % q)
            nodes = [powers[bit_reverse(i, n.bit_length() - 1)] for i in range(n)]
            assert pairs[:, 0].tolist() == nodes
            assert pairs[:, 1].tolist() == [(w << 64) // q for w in nodes]


@pytest.mark.full
@pytest.mark.parametrize("n", [1 << 14, 1 << 16])
@pytest.mark.parametrize("kernel", ["ntt", "intt"])
def test_transforms_use_memory_well(n, kernel):
    """No bank conflict, and few sectors that are not used: in natural order twiddles would double the sum.

    g++ reads a pair of twiddles as two halves, each of which counts all sectors; a GPU reads it at once.
    """
    device = EmulatedDevice("check")
    backend = CudaBackend(device)
    ring = ring_of_width(n, 50, 1)
    made = unit(kernel, ring, (), (n,), (n,))
    compiled = backend.compile(made)
    device.profiled = True
    run_apart(backend, made, compiled, (operand(ring, "random", generator("profile")),), ())
    rows = device.profile()
    assert [r for r in rows if r["wavefronts"] != r["ideal_wavefronts"]] == []
    fetched, ideal = (sum(r[key] for r in rows if r["space"] == "global") for key in ("sectors", "ideal_sectors"))
    assert fetched <= 1.45 * ideal


def test_limb_record_of_the_narrowest_and_widest_modulus():
    for q in (5, primes_of_width(2, 61, 1)[0]):
        record = limb_record(q, 1, 2)
        assert all(0 <= w < 1 << 64 for w in record)
        assert record[0] == q and record[6:] == [1, 2]


# -- the interpreter's programs --------------------------------------------------------------------------------------


def decoded(words):
    """(operation, target, a, b, c) of each word."""
    names = {number: name for name, number in CODE.items()}
    mask = (1 << PLACE_BITS) - 1
    return [(names[w >> 4 * PLACE_BITS], *(w >> k * PLACE_BITS & mask for k in range(4))) for w in words]


def test_a_chain_needs_no_shared_memory():
    """2 x x - 1: every value goes to the next instruction, the last one to the output."""
    made = program(1, 2, (("mul", 0, 0), ("scale", 1, 0), ("subc", 2, 1)), (3,))
    assert made.rows == 0
    assert [(name, target) for name, target, *_ in decoded(made.words)] == [
        ("mul", LAST),
        ("scale", LAST),
        ("subc", MEMORY + 3),
    ]


def test_sums_of_products_are_reduced_once():
    made = program(4, 0, (("mul", 0, 1), ("mac", 2, 3, 4), ("mac", 0, 3, 5)), (6,))
    assert [name for name, *_ in decoded(made.words)] == ["start", "accumulate", "accumulate", "reduce"]
    made = program(4, 0, (("mul", 0, 1), ("mul", 2, 3), ("add", 4, 5)), (6,))
    assert [name for name, *_ in decoded(made.words)] == ["start", "accumulate", "reduce"]


def test_a_product_that_somebody_else_reads_is_kept():
    made = program(3, 0, (("mul", 0, 1), ("mac", 1, 2, 3)), (3, 4))
    assert [name for name, *_ in decoded(made.words)][:1] == ["mul"]


def test_nothing_is_stored_before_the_last_input_is_read():
    """Outputs may be the memory of inputs, in any order."""
    rng = np.random.default_rng(1)
    from ren.testing.programs import PROGRAMS, random_program

    for inputs, scalars, instructions, results in (*PROGRAMS, *(random_program(rng) for _ in range(200))):
        code = decoded(program(inputs, scalars, instructions, results).words)
        stores = [at for at, (_, target, *_) in enumerate(code) if MEMORY <= target < LAST]
        inputs_read = [at for at, (_, _, *places) in enumerate(code) if any(0 <= p - MEMORY < inputs for p in places)]
        assert len(stores) == len(results)
        assert not inputs_read or max(inputs_read) <= min(stores)


def test_long_sums_are_folded(backend):
    ring = ring_of_width(8, 61, 2)
    instructions = (("mul", 0, 1), *(("mac", 0, 1, 2 + i) for i in range(99)))
    made = unit("elementwise", ring, (2, 0, instructions, (101,), Domain.NTT), (16, 16), (16,))
    x = operand(ring, "minus_one", generator("fold"))
    same(backend, ReferenceBackend(), made, x, x)


# -- what is refused -------------------------------------------------------------------------------------------------


def test_what_the_kernels_do_not_take_is_refused(backend):
    wide = ring_of_width(16, 61, 257)
    ring, new = wide.take(0, 256), wide.moduli[256:]
    with pytest.raises(KernelUnsupportedError, match="255"):
        backend.compile(unit("basis_extend", ring, ("exact", new), (256 * 16,), (257 * 16,)))
    # More values at once than shared memory holds: all are results, and the last instruction still reads an input.
    ring = ring_of_width(16, 61, 1)
    many = tuple(("neg", 0) for _ in range(120))
    with pytest.raises(KernelUnsupportedError, match="at once"):
        backend.compile(unit("elementwise", ring, (1, 0, many, tuple(range(1, 121)), Domain.NTT), (16,), (16,) * 120))


def test_what_is_no_array_and_no_domain_is_a_typed_error(backend):
    with pytest.raises(KernelOperandError, match="numpy.uint64 array, got list"):
        backend.copyin(backend.alloc(2), 0, [1, 2])
    ring = ring_of_width(16, 40, 2)
    domains = {"automorphism": (5, "zzz"), "mod_down": (1, 0, "zzz"), "elementwise": (1, 0, (), (0,), "zzz")}
    for kernel, params in domains.items():
        outputs = (16,) if kernel == "mod_down" else (32,)
        with pytest.raises(KernelOperandError, match=f"{kernel}: 'zzz' is no domain, known: "):
            backend.compile(unit(kernel, ring, params, (32,), outputs))


def test_wrong_views_run_nothing(backend, device):
    ring = ring_of_width(16, 40, 1)
    run = backend.compile(unit("copy", ring, (), (16,), (16,)))
    memory = backend.alloc(20)
    before = len(device.launched)
    for views in (
        [(memory, 0)],
        [(memory, 0), (memory, 8)],
        [(memory, 0), (memory, -1)],
        [(memory, 0), (None, 0)],
        [(memory, 0), (get_backend("cpu").alloc(20), 0)],
        [(memory, 0), (EmulatedDevice().alloc(20), 0)],
        [(memory, 1), (memory, 2)],
        [(memory, 0), (memory, 3)],
        [1, 2],
    ):
        with pytest.raises(KernelOperandError):
            run(views)
    assert len(device.launched) == before


def test_operands_at_odd_words_are_refused_and_scalars_are_not(backend):
    """Pairs of words are one access: on a GPU an odd start would end the context with a misaligned address."""
    ring = ring_of_width(16, 40, 1)
    program = (1, 1, (("addc", 0, 0),), (1,), Domain.NTT)
    slots = [Slot(SlotKind.INPUT, 40), Slot(SlotKind.SCALAR, 2)]
    for source, target, text in ((1, 20, "starts at an odd word"), (0, 21, "starts at an odd word"), (0, 20, "")):
        unit = ExecUnit(
            "elementwise", ring, program, (Operand(0, source, 16),), (Operand(1, 1, 1),), (Operand(0, target, 16),)
        )
        if text:
            with pytest.raises(KernelOperandError, match=text):
                backend.graph([unit], slots)
    run = backend.graph([unit], slots)
    memory, scalars = backend.alloc(60), backend.alloc(8)
    backend.copyin(memory, 0, np.arange(60, dtype=np.uint64))
    backend.copyin(scalars, 0, np.arange(8, dtype=np.uint64))
    with pytest.raises(KernelOperandError, match="view at word 1 starts at an odd word"):
        run([(memory, 1), (scalars, 0)])
    run([(memory, 2), (scalars, 3)])
    assert backend.copyout(memory, 22, 16).tolist() == [i + 4 for i in range(2, 18)]


def test_a_division_and_an_automorphism_of_longer_rows_stay_two() -> None:
    """The quotient of two limbs of 64 words, read as one limb of 128: as many words, another ring."""
    short, long = ring_of_width(64, 50, 4), ring_of_width(128, 50, 1)
    quotient = Operand(1, 0, 128)
    units = [
        ExecUnit("mod_down", short, (2, 0, Domain.NTT), (Operand(0, 0, 256),), (), (quotient,)),
        ExecUnit("automorphism", long, (5, Domain.NTT), (quotient,), (), (Operand(2, 0, 128),)),
    ]
    slots = [Slot(SlotKind.INPUT, 256), Slot(SlotKind.TEMPORARY, 128), Slot(SlotKind.OUTPUT, 128)]
    assert [u.kernel for u in fuse(units, slots)] == ["mod_down", "automorphism"]
