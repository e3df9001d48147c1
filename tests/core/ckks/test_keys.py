"""Keys: made once and only when needed, checked at every use, and the secret never where it does not belong."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import (
    KeyMismatchError,
    MemoryBudgetError,
    MissingKeyError,
    NoContextError,
    ParameterError,
    ParametersMismatchError,
    SecretExportError,
    UnsupportedOperandError,
)
from ren.numtheory.sampling import sample_small
from ren.poly import Poly
from ren.schemes import ckks
from ren.schemes.ckks import key_generation
from ren.testing import fixed_randomness

Make = Callable[..., ckks.Engine]


def error_of(engine: ckks.Engine, key: ckks.EvaluationKey, source: Poly, target: Poly) -> list[list[int]]:
    """The noise hidden in each row: b + a target - P g source."""
    factors = key_generation.gadget_factors(engine.params, key.level)
    return [
        (b + a * target - source * f).to_centered_list()
        for (b, a), f in zip(key.buffer.to_polys(), factors, strict=True)
    ]


def test_rows_hide_the_gadget_under_small_noise(new_engine: Make) -> None:
    engine = new_engine()
    s = engine.secret_key.reveal()
    n = engine.params.n
    g = key_generation.rotation_exponent(engine.params, 3)
    for key, source, target in (
        (engine.relinearization_key, s * s, s),
        (engine.rotation_key(3), s, s.automorphism(pow(g, -1, 2 * n))),
        (engine.conjugation_key, s, s.automorphism(2 * n - 1)),
    ):
        errors = np.array(error_of(engine, key, source, target))
        assert errors.shape == (engine.params.digits_at(0), n)
        assert np.abs(errors).max() <= 30  # ten standard deviations: the table is cut there
        assert 2.5 < errors.std() < 4.0
        assert len({tuple(row) for row in errors.tolist()}) == len(errors)


def test_the_secret_is_ternary_with_all_three_values(new_engine: Make) -> None:
    coefficients = new_engine().secret_key.reveal().to_centered_list()
    assert set(coefficients) == {-1, 0, 1}
    assert 20 < coefficients.count(0) < 70


def test_published_seeds_say_nothing_about_errors_or_the_secret(new_engine: Make) -> None:
    engine = new_engine()
    key, public = engine.relinearization_key, engine.public_key
    s = engine.secret_key.reveal()
    seeds = {key.seed, public.seed, engine.rotation_key(1).seed, engine.rotation_key(2).seed}
    assert len(seeds) == 4
    errors = error_of(engine, key, s * s, s)
    for seed in seeds:
        for stream in range(8):
            drawn = sample_small(seed, "gaussian", engine.params.sigma, stream, engine.params.n).tolist()
            assert drawn not in errors
            assert sample_small(seed, "ternary", None, stream, engine.params.n).tolist() != s.to_centered_list()


def test_keys_are_made_once_and_only_on_demand(new_engine: Make) -> None:
    engine = new_engine()
    assert engine.evaluation_keys.members() == ()
    x = engine.encrypt(engine.encode([0.5]))
    assert engine.evaluation_keys.members() == ()
    x.rotate(3)
    x.rotate(3 - 64)
    assert engine.evaluation_keys.rotations is not None and engine.evaluation_keys.rotations.steps == (3,)
    key = engine.rotation_key(3)
    assert engine.rotation_key(67) is key
    x * x
    relinearization = engine.relinearization_key
    x * x
    assert engine.relinearization_key is relinearization
    assert engine.evaluation_keys.conjugation is None


def test_without_automatic_keys_operations_say_what_is_missing(new_engine: Make) -> None:
    engine = new_engine(auto_keys=False)
    x = engine.encrypt(engine.encode([0.5]))
    with pytest.raises(MissingKeyError, match="relinearization key"):
        x * x
    with pytest.raises(MissingKeyError, match="conjugation key"):
        x.conjugate()
    with pytest.raises(MissingKeyError, match="rotation key for step 1"):
        x.rotate(1)
    with pytest.raises(MissingKeyError, match="relinearization key"):
        ckks.polyval(x, [0.0, 0.0, 1.0])
    assert engine.relinearization_key is not None  # asked for by name, it is made
    assert engine.decode(engine.decrypt(x * x), 1)[0] == pytest.approx(0.25, abs=1e-6)


def test_rotation_by_the_identity_has_an_empty_key(new_engine: Make) -> None:
    """Steps of a program that were written before there was an engine: multiples of its slot count among them."""
    engine = new_engine()
    for owner in (engine, engine.public()):
        key = owner.rotation_key(128)
        assert (key.step, key.nbytes, key.key_id) == (0, 0, engine.key_id)
        assert pickle.loads(pickle.dumps(key)).key_id == engine.key_id
    keys = ckks.RotationKeySet({step: engine.rotation_key(step) for step in (64, 65, 128)})
    assert keys.steps == (1,)
    assert keys.lacking([-64, 1, 2, 64, 65]) == [2]
    with pytest.raises(KeyMismatchError):
        ckks.RotationKeySet({64: engine.rotation_key(64), 1: new_engine().rotation_key(1)})


def test_values_of_two_owners_never_mix(new_engine: Make) -> None:
    first, second = new_engine(), new_engine()
    x, y = first.encrypt(first.encode([0.5])), second.encrypt(second.encode([0.25]))
    for operation in (lambda: x + y, lambda: x - y, lambda: x * y, lambda: ckks.multiply(x, y)):
        with pytest.raises(KeyMismatchError) as caught:
            operation()
        assert first.key_id in str(caught.value) and second.key_id in str(caught.value)
    with pytest.raises(KeyMismatchError):
        second.decrypt(x)
    with pytest.raises(KeyMismatchError):
        first.decrypt(x, second.secret_key)
    with pytest.raises(KeyMismatchError):
        ckks.multiply(x, x, key=second.relinearization_key)
    with pytest.raises(KeyMismatchError):
        ckks.polyval(x, [0.0, 0.0, 1.0], key=second.relinearization_key)
    with pytest.raises(KeyMismatchError):
        first.encrypt(first.encode([0.5]), second.public_key)
    with second, pytest.raises(KeyMismatchError, match="active engine"):
        x + x
    with pytest.raises(KeyMismatchError):
        first.add_keys(second.evaluation_keys)
    with pytest.raises(KeyMismatchError):
        ckks.EvaluationKeySet(relinearization=second.relinearization_key, rotations=first.rotation_keys([1]))


def test_parameters_are_compared_by_value(new_engine: Make) -> None:
    first, second = new_engine(), new_engine()
    p = second.encode([0.5])  # a plaintext belongs to parameters, not to a key
    x = first.encrypt(p)
    assert first.decode(first.decrypt(x + p), 1)[0] == pytest.approx(1.0, abs=1e-6)
    other = ckks.keygen(ckks.CKKSParams.build(n=128, levels=3, scale_bits=40, toy=True), "reference")
    for operation in (
        lambda: other.encrypt(p),
        lambda: other.decode(p),
        lambda: other.encrypt(other.encode([1.0])) + p,
    ):
        with pytest.raises(ParametersMismatchError):
            operation()


def test_a_public_engine_encrypts_and_evaluates_but_cannot_decrypt(new_engine: Make) -> None:
    owner = new_engine()
    server = owner.public(rotations=[1, -1], relinearization=True)
    assert server.key_id == owner.key_id and type(server) is ckks.PublicEngine
    with server:
        x = ckks.encrypt(ckks.encode([0.5, 0.25]))
        y = (x * x).rotate(1) + 1
        with pytest.raises(MissingKeyError, match="no secret key here"):
            ckks.decrypt(y)
        with pytest.raises(MissingKeyError, match="step 2.*keys present: 1, 63"):
            x.rotate(2)
        with pytest.raises(MissingKeyError, match="conjugation"):
            x.conjugate()
    np.testing.assert_allclose(owner.decode(owner.decrypt(y), 3), [1.0, 1.25, 1.0625], atol=1e-6)


def test_a_public_engine_has_no_place_for_a_secret(new_engine: Make) -> None:
    owner = new_engine()
    server = owner.public(relinearization=True)
    with pytest.raises(AttributeError):
        server.secret_key  # noqa: B018
    with pytest.raises(AttributeError):
        server._secret = owner.secret_key
    with pytest.raises(AttributeError):
        server.keys.secret = owner.secret_key  # type: ignore[attr-defined]
    assert not hasattr(server, "_owner") and not hasattr(server, "__dict__") and not hasattr(server.keys, "__dict__")


def test_secrets_are_not_printed_pickled_or_copied(new_engine: Make) -> None:
    engine = new_engine()
    secret = engine.secret_key
    coefficients = secret.reveal().to_centered_list()
    for text in (repr(engine), repr(secret), str(secret), repr(engine.keys), f"{secret}", repr(engine.public_key)):
        assert len(text) < 200 and str(coefficients[:6])[1:-1] not in text
    for thing in (secret, engine):
        with pytest.raises(SecretExportError, match=r"engine\.public\(\)"):
            pickle.dumps(thing)
        with pytest.raises(SecretExportError):
            copy.deepcopy(thing)
        with pytest.raises(SecretExportError):
            copy.copy(thing)
    with ckks.allow_secret_pickle():
        kept = pickle.loads(pickle.dumps(secret))
    assert kept.reveal() == secret.reveal()
    again = ckks.Engine(
        kept.params, "reference", secret_key=ckks.SecretKey(kept.params, kept.key_id, kept.reveal().to("reference"))
    )
    x = engine.encrypt(engine.encode([0.5]))
    assert again.decode(again.decrypt(x), 1)[0] == pytest.approx(0.5, abs=1e-6)


def test_public_things_pickle_and_copy(new_engine: Make) -> None:
    engine = new_engine()
    x = engine.encrypt(engine.encode([0.5, -0.25]))
    product = ckks.multiply(x, x, relinearize=False, rescale=False)
    server = engine.public(rotations=[5], relinearization=True, conjugation=True)
    for thing in (
        x,
        x + 1,
        product,
        engine.encode([0.5]),
        ckks.Plaintext.const(3),
        engine.params,
        server.public_key,
        server.evaluation_keys,
        engine.rotation_key(5),
    ):
        for twin in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing), copy.copy(thing)):
            assert type(twin) is type(thing)
            if isinstance(thing, ckks.Ciphertext):
                assert (twin.level, twin.scale, twin.key_id, twin.bound) == (
                    thing.level,
                    thing.scale,
                    thing.key_id,
                    thing.bound,
                )
                assert twin.a == thing.a and twin.b == thing.b
    twin = pickle.loads(pickle.dumps(server))
    assert twin.evaluation_keys.rotations.steps == (5,)
    for (b, a), (d, c) in zip(
        twin.relinearization_key.buffer.to_polys(), engine.relinearization_key.buffer.to_polys(), strict=True
    ):
        assert b == d and a == c
    again = pickle.loads(pickle.dumps(x))  # finds its engine by key id
    assert again.key_id == engine.key_id
    secret = np.array(engine.secret_key.reveal().residues())
    for row in secret:
        assert row.tobytes() not in pickle.dumps(server)


def test_half_of_a_pickled_key_is_a_seed(new_engine: Make) -> None:
    key = new_engine().relinearization_key
    assert len(pickle.dumps(key)) < 0.55 * key.nbytes
    assert key.nbytes == key.buffer.nbytes


def test_keys_of_one_level_are_smaller_and_serve_only_deeper_ones(new_engine: Make) -> None:
    engine = new_engine(auto_keys=False)
    key = engine.generate_rotation_key(1, level=3)
    whole = engine.generate_rotation_key(1)
    assert key.nbytes < whole.nbytes / 2 and key.nbytes == key.buffer.nbytes
    keys = ckks.RotationKeySet({1: key})
    for level in (3, 4, 6):
        x = engine.encrypt(engine.encode([0.5, 0.25], level=level))
        np.testing.assert_allclose(
            engine.decode(engine.decrypt(engine.rotate(x, 1, keys=keys)), 3), [0, 0.5, 0.25], atol=1e-6
        )
    with pytest.raises(MissingKeyError, match="levels from 3"):
        engine.rotate(engine.encrypt(engine.encode([0.5], level=2)), 1, keys=keys)
    relinearization = engine.generate_relinearization_key(level=2)
    x = engine.encrypt(engine.encode([0.5], level=2))
    assert engine.decode(engine.decrypt(ckks.multiply(x, x, key=relinearization)), 1)[0] == pytest.approx(
        0.25, abs=1e-6
    )


def test_a_budget_is_checked_before_the_first_key(new_engine: Make) -> None:
    one = ckks.CKKSParams.python_test().evaluation_key_bytes()
    engine = new_engine(key_budget=3 * one)
    with pytest.raises(MemoryBudgetError) as caught:
        engine.rotation_keys(range(64))
    assert str(63 * one) in str(caught.value) and str(3 * one) in str(caught.value)
    assert engine.evaluation_keys.members() == ()
    assert engine.rotation_keys([1, 2, 3]).steps == (1, 2, 3)
    assert engine.evaluation_keys.nbytes == 3 * one
    with pytest.raises(MemoryError):
        engine.encrypt(engine.encode([0.5])).rotate(4)
    with pytest.raises(MemoryError):
        _ = engine.relinearization_key


def test_the_budget_comes_from_the_environment(new_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REN_KEY_BUDGET", "1000")
    with pytest.raises(MemoryBudgetError, match="1000"):
        new_engine().rotation_key(1)


def test_rotation_key_sets_normalise_and_check() -> None:
    engine = ckks.keygen(ckks.CKKSParams.python_test(), "reference")
    key = engine.rotation_key(-1)
    keys = ckks.RotationKeySet({-1: key})
    assert keys[63] is key and keys[-1] is key and -1 in keys and 127 in keys and 1 not in keys
    assert list(keys) == [63] and len(keys) == 1
    with pytest.raises(KeyMismatchError, match="rotates by 63"):
        ckks.RotationKeySet({1: key})
    with pytest.raises(UnsupportedOperandError):
        ckks.RotationKeySet({1: engine.relinearization_key})  # type: ignore[dict-item]
    with pytest.raises(MissingKeyError, match="step 5"):
        keys[5]
    with pytest.raises(UnsupportedOperandError):
        ckks.EvaluationKeySet(relinearization=key)  # type: ignore[arg-type]


def test_seeded_keys_are_for_toys_only() -> None:
    toy = ckks.CKKSParams.python_test()
    one, two = (ckks.keygen(toy, "reference", seed=b"x") for _ in range(2))
    assert one.secret_key.reveal() == two.secret_key.reveal() and one.key_id == two.key_id
    assert one.rotation_key(5).seed == two.rotation_key(5).seed != one.rotation_key(6).seed
    assert ckks.keygen(toy, "reference").secret_key.reveal() != one.secret_key.reveal()
    with pytest.raises(ParameterError, match="toy"):
        ckks.keygen(ckks.CKKSParams.build(n=4096, levels=0, scale_bits=30), "reference", seed=b"x")


def test_fixed_randomness_repeats_keys_and_noise() -> None:
    def draw() -> Any:
        engine = ckks.keygen(ckks.CKKSParams.python_test(), "reference")
        x = engine.encrypt(engine.encode([0.5]))
        return engine.key_id, x.a.tobytes(), x.b.tobytes(), engine.rotation_key(1).seed

    with fixed_randomness(3):
        first = draw()
    with fixed_randomness(3):
        second = draw()
    assert first == second and draw() != first


def test_contexts(new_engine: Make) -> None:
    first, second = new_engine(), new_engine()
    with pytest.raises(NoContextError, match="with keygen"):
        ckks.context()
    with first:
        assert ckks.context() is first
        with second:
            assert ckks.context() is second
        assert ckks.context() is first
    with pytest.raises(NoContextError):
        ckks.encode([1.0])


def test_a_value_without_a_living_engine_says_so(new_engine: Make) -> None:
    engine = new_engine()
    data, key_id = pickle.dumps(engine.encrypt(engine.encode([0.5]))), engine.key_id
    public = pickle.dumps(engine.public(relinearization=True))
    del engine
    orphan = pickle.loads(data)
    with pytest.raises(NoContextError, match=key_id):
        orphan + 1
    server = pickle.loads(public)
    assert (orphan.to(server.device) * 2).key_id == key_id  # attached again by key id


def test_a_public_engine_outlives_its_owner(new_engine: Make) -> None:
    engine = new_engine()
    x, server = engine.encrypt(engine.encode([0.5])), engine.public(relinearization=True)
    del engine
    assert (x * x).level == 1
    with pytest.raises(MissingKeyError):
        x.rotate(1)
    assert server.key_id == x.key_id


def test_engines_take_presets_and_refuse_other_things() -> None:
    engine = ckks.Engine("python-test", "reference")
    assert engine.params == ckks.CKKSParams.python_test() and engine.config is engine.params
    assert engine.num_slots == 64
    with pytest.raises(UnsupportedOperandError, match="CKKSParams"):
        ckks.Engine(3)  # type: ignore[arg-type]
    assert "TOY" in repr(engine)
