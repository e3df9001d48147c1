"""The reference backend refuses whatever the backend contract does not allow."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from ren.backend.protocol import Backend
from ren.backend.reference import ReferenceBackend
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import InvalidRingError, InvalidSampleError, KernelOperandError, KernelUnsupportedError, RenError
from ren.ops import KERNELS, Domain
from ren.ring import RingSpec

B = ReferenceBackend()
RING = RingSpec(8, (17, 97, 113, 193))
WORDS = RING.limbs * RING.n


def unit(kernel, params, inputs, outputs, scalars=(), ring=RING, scratch=()):
    sizes = [*inputs, *scalars, *outputs, *scratch]
    o = tuple(Operand(i, 0, w) for i, w in enumerate(sizes))
    a, b, c = len(inputs), len(inputs) + len(scalars), len(inputs) + len(scalars) + len(outputs)
    return ExecUnit(kernel, ring, params, o[:a], o[a:b], o[b:c], o[c:])


def filled(words):
    memory = B.alloc(words)
    memory[:] = 0
    return memory


def test_is_a_backend_with_every_kernel():
    assert isinstance(B, Backend)
    assert B.name == "reference"
    assert B.capabilities().kernels == set(KERNELS)
    ntt = unit("ntt", (), [WORDS], [WORDS])
    assert B.scratch_words(ntt) == 0
    assert B.graph([ntt], []) is None
    B.synchronize()


def test_unknown_kernel():
    with pytest.raises(KernelUnsupportedError, match="'fft'"):
        B.compile(unit("fft", (), [WORDS], [WORDS]))


# -- parameters and sizes, when a unit is compiled -------------------------------------------------------------------

ADD = (2, 0, (("add", 0, 1),), (2,), Domain.NTT)

WRONG_UNITS = {
    "too few inputs": unit("elementwise", ADD, [WORDS], [WORDS]),
    "short input": unit("ntt", (), [WORDS - 1], [WORDS]),
    "short output": unit("ntt", (), [WORDS], [WORDS - 8]),
    "scratch": unit("ntt", (), [WORDS], [WORDS], scratch=[8]),
    "scalar of one limb": unit("elementwise", (1, 1, (("scale", 0, 0),), (1,), Domain.NTT), [WORDS], [WORDS], [1]),
    "too many parameters": unit("ntt", (1,), [WORDS], [WORDS]),
    "no such domain": unit("automorphism", (3, "fourier"), [WORDS], [WORDS]),
    "even automorphism": unit("automorphism", (2, Domain.NTT), [WORDS], [WORDS]),
    "automorphism not reduced": unit("automorphism", (17, Domain.NTT), [WORDS], [WORDS]),
    "unknown opcode": unit("elementwise", (1, 0, (("sqrt", 0),), (1,), Domain.NTT), [WORDS], [WORDS]),
    "operand missing": unit("elementwise", (1, 0, (("add", 0),), (1,), Domain.NTT), [WORDS], [WORDS]),
    "register from the future": unit("elementwise", (1, 0, (("add", 0, 1),), (1,), Domain.NTT), [WORDS], [WORDS]),
    "no such scalar": unit("elementwise", (1, 0, (("addc", 0, 0),), (1,), Domain.NTT), [WORDS], [WORDS]),
    "no such result": unit("elementwise", (1, 0, (("neg", 0),), (2,), Domain.NTT), [WORDS], [WORDS]),
    "nothing dropped": unit("mod_down", (0, 0, Domain.NTT), [WORDS], [WORDS]),
    "everything dropped": unit("mod_down", (4, 0, Domain.NTT), [WORDS], [0]),
    "z too short": unit("mod_down", (1, 2, Domain.NTT), [WORDS, 16], [24]),
    "z too long": unit("mod_down", (1, 5, Domain.NTT), [WORDS, 40], [24]),
    "z not given": unit("mod_down", (1, 3, Domain.NTT), [WORDS], [24]),
    "no such mode": unit("basis_extend", ("best", (241,)), [WORDS], [40]),
    "alpha 0": unit("decompose", (0, (), Domain.NTT), [WORDS], [WORDS]),
    "index too short": unit("gadget_product", (1, 4, (0, 1)), [WORDS, 64], [WORDS, WORDS]),
    "index outside the key": unit("gadget_product", (1, 4, (0, 1, 2, 4)), [WORDS, 64], [WORDS, WORDS]),
    "index twice": unit("gadget_product", (1, 4, (0, 1, 2, 2)), [WORDS, 64], [WORDS, WORDS]),
    "key with too few digits": unit("gadget_product", (2, 4, (0, 1, 2, 3)), [2 * WORDS, 64], [WORDS, WORDS]),
    "key of broken size": unit("gadget_product", (1, 4, (0, 1, 2, 3)), [WORDS, 65], [WORDS, WORDS]),
    "key not given": unit("key_switch", (2, (), Domain.NTT, 4, (0, 1, 2, 3)), [WORDS], [WORDS, WORDS]),
    "short seed": unit("sample", ("uniform", None, 0), [3], [WORDS]),
    "float without its last word": unit("from_float", (), [8], [WORDS]),
}


@pytest.mark.parametrize("name", WRONG_UNITS)
def test_wrong_unit_is_refused_when_compiled(name):
    wrong = WRONG_UNITS[name]
    with pytest.raises(KernelOperandError, match=wrong.kernel) as error:
        B.compile(wrong)
    assert error.value.subject == wrong.kernel


def test_new_moduli_must_fit_the_ring():
    for kernel, params in (("basis_extend", ("exact", (17,))), ("decompose", (2, (19,), Domain.NTT))):
        with pytest.raises(InvalidRingError):
            B.compile(unit(kernel, params, [WORDS], [WORDS]))


def test_undefined_sample_is_refused_when_compiled():
    with pytest.raises(InvalidSampleError):
        B.compile(unit("sample", ("gaussian", "wide", 0), [4], [WORDS]))


# -- views and words, when it runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["copy", "automorphism", "mod_down"])
def test_outputs_may_not_overlap_inputs(kernel):
    params = {"copy": (), "automorphism": (3, Domain.NTT), "mod_down": (1, 0, Domain.NTT)}[kernel]
    out = WORDS - 8 if kernel == "mod_down" else WORDS
    run = B.compile(unit(kernel, params, [WORDS], [out]))
    memory = filled(3 * WORDS)
    for offset in (0, 1, WORDS - 1):
        with pytest.raises(KernelOperandError, match="overlaps"):
            run([(memory, 0), (memory, offset)])
    run([(memory, 0), (memory, WORDS)])


def test_in_place_means_the_same_words():
    run = B.compile(unit("ntt", (), [WORDS], [WORDS]))
    memory = filled(3 * WORDS)
    run([(memory, 5), (memory, 5)])
    with pytest.raises(KernelOperandError, match="overlaps"):
        run([(memory, 5), (memory, 6)])


def test_outputs_may_not_overlap_each_other_or_scalars():
    program = (1, 1, (("neg", 0), ("scale", 0, 0)), (1, 2), Domain.NTT)
    run = B.compile(unit("elementwise", program, [WORDS], [WORDS, WORDS], [4]))
    memory = filled(4 * WORDS)
    run([(memory, 0), (memory, 3 * WORDS), (memory, 0), (memory, WORDS)])
    with pytest.raises(KernelOperandError, match="output 1 overlaps"):
        run([(memory, 0), (memory, 3 * WORDS), (memory, WORDS), (memory, WORDS)])
    with pytest.raises(KernelOperandError, match="output 0 overlaps"):
        run([(memory, 0), (memory, WORDS), (memory, WORDS - 2), (memory, 2 * WORDS)])


@pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
def test_views_must_fit_their_memory(offset):
    run = B.compile(unit("copy", (), [WORDS], [WORDS]))
    with pytest.raises(KernelOperandError, match="does not fit"):
        run([(filled(WORDS), offset), (filled(WORDS), 0)])


def test_number_of_views():
    with pytest.raises(KernelOperandError, match="2 operands, got 1 views"):
        B.compile(unit("copy", (), [WORDS], [WORDS]))([(filled(WORDS), 0)])


@pytest.mark.parametrize("kernel", ["ntt", "copy", "lift", "decompose"])
def test_memory_that_nobody_wrote_is_noticed(kernel):
    params = (2, (), Domain.COEFF) if kernel == "decompose" else ()
    out = {"lift": 9, "decompose": 2 * WORDS}.get(kernel, WORDS)
    run = B.compile(unit(kernel, params, [WORDS], [out]))
    with pytest.raises(KernelOperandError, match="limb 0, position 0 .* no residue modulo 17"):
        run([(B.alloc(WORDS), 0), (B.alloc(out), 0)])


def test_words_that_are_no_residues_are_named():
    x = filled(WORDS)
    x[2 * 8 + 3] = 113
    with pytest.raises(KernelOperandError, match="limb 2, position 3 holds 113"):
        B.compile(unit("ntt", (), [WORDS], [WORDS]))([(x, 0), (filled(WORDS), 0)])


def test_spare_limbs_of_a_key_are_not_looked_at():
    run = B.compile(unit("gadget_product", (1, 5, (0, 1, 3, 4)), [WORDS, 160], [WORDS, WORDS]))
    key = filled(160)
    key.reshape(2, 2, 5, 8)[:, :, 2] = 1 << 63  # a limb that is skipped
    key.reshape(2, 2, 5, 8)[1] = 1 << 63  # a digit that is not used
    run([(filled(WORDS), 0), (key, 0), (filled(WORDS), 0), (filled(WORDS), 0)])


@pytest.mark.parametrize("value", [0.5, -1e-300, 2.0**51 + 0.5, math.nan, math.inf, -math.inf])
def test_from_float_takes_integers(value):
    x = filled(9)
    x[:8].view(np.float64)[3] = value
    with pytest.raises(KernelOperandError, match="coefficient 3 is"):
        B.compile(unit("from_float", (), [9], [WORDS]))([(x, 0), (filled(WORDS), 0)])


def test_copies_are_checked():
    memory = B.alloc(8)
    for offset, data in (
        (5, np.zeros(4, np.uint64)),
        (-1, np.zeros(1, np.uint64)),
        (0, np.zeros(4, np.int64)),
        (0, np.zeros((2, 2), np.uint64)),
    ):
        with pytest.raises(KernelOperandError, match="copyin"):
            B.copyin(memory, offset, data)
    for offset, words in ((5, 4), (-1, 1), (0, -1)):
        with pytest.raises(KernelOperandError, match="copyout"):
            B.copyout(memory, offset, words)


def test_failed_run_leaves_the_unit_usable():
    run = B.compile(unit("ntt", (), [WORDS], [WORDS]))
    out = filled(WORDS)
    with pytest.raises(RenError):
        run([(B.alloc(WORDS), 0), (out, 0)])
    x = filled(WORDS)
    x[::8] = 1
    run([(x, 0), (out, 0)])
    assert out.tolist() == [1] * WORDS  # the constant 1 has the value 1 everywhere


def test_units_are_compiled_from_plain_strings_too():
    """A plan read from a file has text where code has a Domain."""
    u = unit("automorphism", (3, Domain.NTT), [WORDS], [WORDS])
    B.compile(replace(u, params=(3, "ntt")))


# -- imports ---------------------------------------------------------------------------------------------------------


def test_nothing_heavy_is_imported():
    script = (
        "import sys, ren.testing, ren.backend.reference\n"
        "from ren.testing import fixed_randomness\n"
        "print(sorted(set(sys.modules) & {'pytest', 'hypothesis', 'numba', 'cupy', 'torch', 'xdsl'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_in_the_kit():
    import ren.testing

    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        ren.testing.Nonsense  # noqa: B018
    assert "BackendConformance" in dir(ren.testing)
