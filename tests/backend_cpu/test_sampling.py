"""Samplers of the CPU backend: key stream vectors, redraws (the compiled code itself: `test_avx512_code`)."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import InvalidSampleError, KernelOperandError
from ren.numtheory.primes import ntt_primes_above, ntt_primes_below
from ren.numtheory.sampling import gaussian_thresholds, sample_rows
from ren.ring import RingSpec
from ren.testing.cases import KernelCase, cases
from ren_backend_cpu.kernels import sampling
from ren_backend_cpu.kernels.chacha import stream_words
from ren_backend_cpu.lower_sampling import lower_sample

Words = NDArray[np.uint64]


@njit
def _stream(out, seed, stream, attempt, tag, first, groups):
    stream_words(out, seed, stream, attempt, tag, first, groups)


def key_stream(key: bytes, first: int, groups: int, nonce: tuple[int, int, int]) -> NDArray[np.uint32]:
    """[group, word, block in group]"""
    out, seed = np.zeros(128 * groups, np.uint64), np.frombuffer(key, np.uint64).copy()
    _stream(out.ctypes.data, seed.ctypes.data, *nonce, first, groups)
    return out.view("<u4").reshape(groups, 16, 16)


def test_rfc_8439_vectors() -> None:
    nonce = tuple(int(w) for w in np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4"))
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    words = key_stream(bytes(range(32)), 0, 1, nonce)[0]
    assert words[:, 1].astype("<u4").tobytes().hex() == expected, "section 2.3.2, block 1"
    zero = key_stream(bytes(32), 0, 1, (0, 0, 0))[0]
    assert zero[:, 0].tobytes().hex().startswith("76b8e0ada0f13d90405d6ae55386bd28"), "appendix A.1 number 1"
    assert zero[:, 1].tobytes().hex().startswith("9f07e7be5551387a98ba977c732d080d"), "appendix A.1 number 2"


def test_groups_continue_each_other() -> None:
    whole = key_stream(bytes(range(32)), 0, 5, (7, 0, 2))
    for first in range(5):
        assert np.array_equal(key_stream(bytes(range(32)), first, 1, (7, 0, 2))[0], whole[first])


@pytest.mark.parametrize("n", [2, 64, 128, 512])
def test_agrees_with_the_definition(n: int, agree) -> None:
    for case in cases("sample", n, (14, 40, 50, 61)):
        agree(case)


@pytest.mark.parametrize("n", [8, 128, 1024])
def test_refused_words_are_redrawn(n: int, agree) -> None:
    """Moduli just above 2^64/k refuse nearly one word in k, those of 13 bits and less nearly none."""
    moduli = tuple(next(ntt_primes_above((1 << 64) // k + 1, n)) for k in (9, 17, 33)) + (next(ntt_primes_above(2, n)),)
    ring = RingSpec(n, moduli)
    seeds = tuple(((np.arange(4 * s, 4 * s + 4, dtype=np.uint64),), ()) for s in range(4))
    agree(KernelCase("sample", ring, ("uniform", None, 3), seeds, (ring.limbs * n,)))
    word = np.frombuffer(bytes(32), np.uint64)[0]
    assert word == 0  # the seed is read as stored: little-endian words


@pytest.mark.parametrize("weight", [0, 1, 63, 64])
def test_sparse_ternary_has_its_weight(weight: int, compute) -> None:
    ring = RingSpec(64, (next(ntt_primes_below(1 << 40, 64)),))
    seed = np.arange(4, dtype=np.uint64)
    (out,) = compute("sample", ring, ("sparse_ternary", weight, 0), [seed], [64])
    assert np.count_nonzero(out) == weight


def test_small_samples_are_the_same_integer_in_every_limb(compute) -> None:
    n = 256
    ring = RingSpec(n, tuple(next(ntt_primes_below(1 << b, n)) for b in (61, 50, 30)) + (next(ntt_primes_above(2, n)),))
    seed = np.arange(4, dtype=np.uint64)
    (out,) = compute("sample", ring, ("gaussian", "3.19", 0), [seed], [4 * n])
    rows = out.reshape(4, n).astype(np.int64)
    centred = [np.where(r > q // 2, r - q, r) for r, q in zip(rows, ring.moduli, strict=True)]
    assert all(np.array_equal(c, centred[0]) for c in centred)
    assert np.array_equal(out.reshape(4, n), sample_rows(seed.tobytes(), "gaussian", "3.19", 0, n, ring.moduli))


def test_search_tree_orders_the_thresholds() -> None:
    thresholds = gaussian_thresholds("3.19")
    words = sampling.gaussian_tree(thresholds)
    levels = [words[:1], words[8:10], words[16:20], words[24:32], words[32:48]]
    for u in [0, *thresholds, *(t - 1 for t in thresholds), (1 << 63) - 1]:
        k = 0
        for level in levels:
            k = 2 * k + (u >= level[k])
        assert k == sum(u >= t for t in thresholds)


@pytest.mark.parametrize(
    "params", [("uniform", 3, 0), ("gaussian", "0", 0), ("sparse_ternary", 65, 0), ("normal", None, 0)]
)
def test_undefined_parameters_are_refused(params) -> None:
    ring = RingSpec(64, (next(ntt_primes_below(1 << 40, 64)),))
    unit = ExecUnit("sample", ring, params, (Operand(0, 0, 4),), (), (Operand(1, 0, 64),), (Operand(2, 0, 1000),))
    with pytest.raises(InvalidSampleError):
        lower_sample(unit)


def test_scratch_is_demanded() -> None:
    ring = RingSpec(64, (next(ntt_primes_below(1 << 40, 64)),))
    unit = ExecUnit("sample", ring, ("ternary", None, 0), (Operand(0, 0, 4),), (), (Operand(1, 0, 64),))
    with pytest.raises(KernelOperandError, match="scratch"):
        lower_sample(unit)
