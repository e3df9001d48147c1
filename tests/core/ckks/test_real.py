"""Once at 128-bit secure parameters, on the fastest backend of the machine: every operation, within the bound of the noise model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ren
from ren.errors import MemoryBudgetError
from ren.schemes import ckks
from ren.schemes.ckks import noise

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine() -> Iterator[ckks.Engine]:
    made = ckks.keygen(ckks.CKKSParams.default(), "cpu")
    with made:
        yield made


@pytest.fixture
def real_lab(engine: ckks.Engine, lab_of: Any) -> Any:
    return lab_of(engine)


def test_security(engine: ckks.Engine) -> None:
    assert engine.params.security_bits == 128 and not engine.params.toy
    assert (engine.num_slots, engine.params.levels, engine.params.scale_bits) == (16384, 16, 40)


def test_all_rotation_keys_are_refused_before_the_first_is_made(engine: ckks.Engine) -> None:
    each = engine.params.evaluation_key_bytes()
    with pytest.raises(MemoryBudgetError, match=str(16383 * each)):
        engine.rotation_keys(range(engine.num_slots))
    rotations = engine.evaluation_keys.rotations
    assert rotations is not None and len(rotations) < 10


def test_every_operation(real_lab: Any) -> None:
    for public in (False, True):
        real_lab.encrypt(public=public, complex_=True).check()
    x, y = real_lab.encrypt(public=True), real_lab.encrypt()
    low = (x * y * x).check()
    (x + y).check()
    (low + x).check()
    (x * low).check()
    (low - 0.25).check()
    (2 * x.ct * x.ct - 1).realize()
    (x * (0.3 - 0.4j)).check()
    (x * real_lab.values()).check()
    x.switched(x.ct.rotate(-1000), np.roll(x.exact, -1000)).check()
    x.switched(x.ct.conjugate(), x.exact).check()
    deep = real_lab.encrypt(level=15)
    (deep * deep).check()


def test_polynomial_of_degree_31_in_five_levels(real_lab: Any) -> None:
    x = real_lab.encrypt()
    c = ckks.chebyshev_coefficients(np.exp, 31)
    found = ckks.polyval(x.ct, c, basis="chebyshev")
    assert found.level == 5
    assert np.abs(real_lab.open(found) - np.exp(x.exact)).max() < 2.0**-20


@pytest.mark.filterwarnings("ignore::ren.errors.PossibleOverflowWarning")
def test_the_first_document_s_circuit_eager_and_replayed(engine: ckks.Engine, real_lab: Any) -> None:
    def ten(x: Any) -> Any:
        for _ in range(10):
            x = 2 * x * x - 1
        return x

    params = engine.params
    predicted = noise.fresh(params, public=False).bound(params.slot_count)
    for level in range(10):
        added = noise.relinearize_rescale(params, level, params.scale_at(level + 1)).bound(params.slot_count)
        predicted = 4 * predicted + 2 * predicted**2 + added
    jitted = ren.jit(ten)
    for _ in range(2):
        x = real_lab.encrypt()
        exact = x.exact
        for _ in range(10):
            exact = 2 * exact * exact - 1
        eager, replayed = ten(x.ct), jitted(x.ct)
        assert eager.a == replayed.a and eager.b == replayed.b
        error = np.abs(real_lab.open(replayed) - exact)
        assert error.max() <= predicted
        assert error.mean() < 2.0**-14
