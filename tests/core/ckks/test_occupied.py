"""`occupied`: what a value knows of the slots behind its elements, through encoding, encryption, arithmetic and files. Never more than is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ren.errors import FormatError
from ren.schemes import ckks
from ren.schemes.ckks import files
from ren.schemes.ckks.evaluator import multiply

FIVE = np.linspace(0.25, 1.0, 5)
THREE = np.array([0.5, -0.75, 1.0])
EIGHT = np.linspace(-1.0, 1.0, 8)


@pytest.fixture(scope="module")
def engine() -> Any:
    return ckks.Engine("python-test", device="reference")


def values(engine: Any, which: Any, slots: int | None = 8) -> Any:
    return engine.encrypt(engine.encode(which, slots=slots))


def kept_at_most(engine: Any, x: Any) -> None:
    """All slots of the period from `occupied` on are zero."""
    found = engine.decode(engine.decrypt(x))
    assert found.size == x.slots
    if x.occupied is not None:
        assert 1 <= x.occupied <= x.slots
        assert np.abs(found[x.occupied :]).max(initial=0.0) < 1e-6


def test_the_number_of_values_is_kept(engine: Any) -> None:
    assert engine.encode(FIVE, slots=8).occupied == 5
    assert engine.encode(np.zeros(8), slots=8).occupied == 8  # the length counts, never the values
    assert values(engine, FIVE).occupied == 5
    assert engine.decrypt(values(engine, FIVE)).occupied == 5
    assert [p.occupied for p in engine.encode(np.ones((2, 3)), slots=4).items] == [3, 3]
    assert engine.encode(FIVE).occupied is None
    assert replace(values(engine, FIVE), occupied=None).occupied is None


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], int | None]] = {
    "sum": (lambda e, x: x + values(e, THREE), 5),
    "sum with all": (lambda e, x: x + values(e, EIGHT), 8),
    "difference with fewer slots": (lambda e, x: x - values(e, THREE, 4), 7),
    "product": (lambda e, x: x * values(e, THREE), 3),
    "product with all": (lambda e, x: values(e, EIGHT) * x, 5),
    "product with the unknown": (lambda e, x: x * replace(values(e, EIGHT), occupied=None), 5),
    "product with fewer slots": (lambda e, x: x * values(e, THREE, 4), 5),
    "sum with the unknown": (lambda e, x: x + replace(values(e, EIGHT), occupied=None), None),
    "square": (lambda e, x: x.square(), 5),
    "power": (lambda e, x: x**3, 5),
    "not relinearized": (lambda e, x: multiply(e, x, x, relinearize=False), 5),
    "relinearized": (lambda e, x: multiply(e, x, x, relinearize=False, rescale=False).relinearize(rescale=True), 5),
    "negative": (lambda e, x: -x, 5),
    "number times": (lambda e, x: 3 * x * 0.5, 5),
    "complex number times": (lambda e, x: (x * (1 + 1j)) * (1 - 1j), 5),
    "number plus": (lambda e, x: x + 1, None),
    "array times": (lambda e, x: x * [2.0, 2.0], 2),
    "array plus": (lambda e, x: x + EIGHT, 8),
    "divided": (lambda e, x: x / 2, 5),
    "plaintext times": (lambda e, x: x * e.encode(THREE, slots=8), 3),
    "plaintext plus": (lambda e, x: x + e.encode(EIGHT[:6], slots=8), 6),
    "rotated": (lambda e, x: x.rotate(2), None),
    "all added up": (lambda e, x: x.sum_slots(), None),
    "deeper": (lambda e, x: e.adjust(x.mod_drop(1), 3), 5),
    "polynomial": (lambda e, x: ckks.polyval(x, [0.5, 1.0]), None),
    "bound": (lambda e, x: x.assume_bound(2.0), 5),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_know_at_most_what_is_true(name: str, engine: Any) -> None:
    operation, expected = OPERATIONS[name]
    found = operation(engine, values(engine, FIVE))
    assert found.occupied == expected
    kept_at_most(engine, found)


def test_files_keep_it_and_older_ones_do_not_know(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, plain = values(engine, FIVE), engine.encode(FIVE, slots=8)
    product = multiply(engine, x, x, relinearize=False)
    for value in (x, plain, product):
        assert files.from_bytes(files.to_bytes(value), engine).occupied == 5
    facts = files._state_facts
    monkeypatch.setattr(files, "_state_facts", lambda v: {k: f for k, f in facts(v).items() if k != "occupied"})
    for value in (x, plain, product):
        assert files.from_bytes(files.to_bytes(value), engine).occupied is None


@pytest.mark.parametrize("wrong", [0, 9, -1, True, 2.0, "3"])
def test_files_that_claim_nonsense_are_refused(wrong: Any, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = files._state_facts
    monkeypatch.setattr(files, "_state_facts", lambda v: {**facts(v), "occupied": wrong})
    data = files.to_bytes(values(engine, FIVE))
    with pytest.raises(FormatError, match="occupied"):
        files.from_bytes(data, engine)
