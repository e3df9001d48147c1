"""Every backend of this machine gives the residues of the reference backend, to the last bit: keys, encryption, every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ren.backend.select import backends
from ren.schemes import ckks
from ren.testing import fixed_randomness

DEVICES = [b.name for b in backends() if b.facts.device_works and b.name != "reference"]


def results(device: str, params: ckks.CKKSParams) -> dict[str, Any]:
    """Named values of one run; all randomness is fixed."""
    engine = ckks.keygen(params, device, seed=b"devices")
    rng = np.random.default_rng(3)
    v, w = rng.uniform(-1, 1, (2, engine.num_slots))
    with engine, fixed_randomness(11):
        x, y = ckks.encrypt(ckks.encode(v)), ckks.encrypt(ckks.encode(w + 1j * v, msg_bound=2.0), engine.public_key)
        product = ckks.multiply(x, y, relinearize=False, rescale=False)
        return {
            "secret": x,
            "public": y,
            "deep": ckks.encrypt(ckks.encode(v, level=2), engine.public_key),
            "sum": x + y,
            "product": x * y,
            "square": y.square(),
            "unrescaled": ckks.multiply(x, y, rescale=False),
            "late": (product + product).relinearize(rescale=True),
            "three parts": product.rescale(),
            "mixed levels": x * y * x + y,
            "integer": x * -1 + (-3),
            "add negative": x + (-0.25),
            "subtract": x - 0.25,
            "subtract from": 0.25 - x,
            "complex": x + (-0.1 - 0.2j),
            "times complex": x * (0.3 - 0.4j),
            "array": x * w - v,
            "rotation": y.rotate(-3),
            "conjugate": y.conjugate(),
            "sum of slots": x.sum_slots(),
            "polynomial": ckks.polyval(x, [0.5, -1.0, 0.25, 0.125, 1.0]),
            "matrix": ckks.linear_transform(x, np.outer(v[:4], w[:4])),
            "decrypted": np.asarray(ckks.decode(ckks.decrypt(x * y))),
        }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale_bits", [30, 40, 50])
def test_same_bits_as_the_reference_backend(device: str, scale_bits: int) -> None:
    params = ckks.CKKSParams.build(n=128, levels=5, scale_bits=scale_bits, toy=True)
    expected, found = results("reference", params), results(device, params)
    for name, value in expected.items():
        other = found[name]
        if isinstance(value, np.ndarray):
            assert value.tobytes() == other.tobytes(), name
            continue
        for part in ("a", "b", "c") if isinstance(value, ckks.CiphertextProduct) else ("a", "b"):
            mine, theirs = getattr(value, part), getattr(other, part)
            assert np.array_equal(mine.residues(), theirs.residues()), (name, part)
        assert (value.level, value.scale, value.bound) == (other.level, other.scale, other.bound), name
