"""Bytes and files: round trips, checks when loading, and the secret only where it was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ren.errors import (
    ChecksumError,
    FormatError,
    FormatVersionError,
    KeyMismatchError,
    NotRenDataError,
    ParametersMismatchError,
    SecretExportError,
    TruncatedDataError,
    UnsupportedOperandError,
)
from ren.schemes import ckks

Make = Callable[..., ckks.Engine]


def test_values_round_trip(lab: Any) -> None:
    engine = lab.engine
    x = lab.encrypt(complex_=True)
    lazy = x.ct * x.ct + 0.5
    product = ckks.multiply(x.ct, x.ct, relinearize=False, rescale=False)
    for value in (x.ct, lazy, product, x.ct.rotate(1)):
        twin = ckks.from_bytes(ckks.to_bytes(value), engine)
        assert type(twin) is type(value)
        assert (twin.level, twin.scale, twin.slots, twin.key_id, twin.bound, twin.is_real) == (
            value.level,
            value.scale,
            value.slots,
            value.key_id,
            value.bound,
            value.is_real,
        )
        assert twin.a == value.a and twin.b == value.b
    p = engine.encode(x.exact, level=2)
    twin = ckks.from_bytes(ckks.to_bytes(p), engine)
    assert twin.poly == p.poly and (twin.level, twin.scale, twin.bound) == (p.level, p.scale, p.bound)
    batch = ckks.encrypt(ckks.encode(np.eye(3)))
    twin = ckks.from_bytes(ckks.to_bytes(batch), engine)
    np.testing.assert_allclose(ckks.decode(ckks.decrypt(twin), 3), np.eye(3), atol=1e-6)


@pytest.mark.parametrize("value", [3, -(10**40), 0.1, -1e-300, 0.5 - 2j])
def test_constants_round_trip(value: Any) -> None:
    twin = ckks.from_bytes(ckks.to_bytes(ckks.Plaintext.const(value)))
    assert type(twin.value) is type(value) and twin.value == value


def test_keys_round_trip_at_half_their_size(new_engine: Make) -> None:
    engine = new_engine()
    server = engine.public(rotations=[1, 5], relinearization=True, conjugation=True)
    for key in (
        engine.public_key,
        engine.relinearization_key,
        engine.conjugation_key,
        engine.rotation_key(5),
        engine.generate_rotation_key(2, level=3),
    ):
        data = ckks.to_bytes(key)
        twin = ckks.from_bytes(data, engine)
        assert type(twin) is type(key) and twin.seed == key.seed and twin.key_id == key.key_id
        if isinstance(key, ckks.EvaluationKey):
            assert len(data) < key.stored_nbytes + 4096 < 0.7 * key.nbytes
            for (b, a), (d, c) in zip(twin.buffer.to_polys(), key.buffer.to_polys(), strict=True):
                assert b == d and a == c
        else:
            assert twin.a == key.a and twin.b == key.b
    twin = ckks.from_bytes(ckks.to_bytes(server), device="reference")
    assert twin.evaluation_keys.rotations.steps == (1, 5)
    x = engine.encrypt(engine.encode([0.5, 0.25]))
    with twin:
        y = (x * x).rotate(1)
    np.testing.assert_allclose(engine.decode(engine.decrypt(y), 3), [0, 0.25, 0.0625], atol=1e-6)
    assert ckks.from_bytes(ckks.to_bytes(engine.params)) == engine.params


def test_loading_checks_the_owner_and_the_parameters(new_engine: Make) -> None:
    engine, stranger = new_engine(), new_engine()
    data = ckks.to_bytes(engine.encrypt(engine.encode([0.5])))
    with pytest.raises(KeyMismatchError, match=stranger.key_id):
        ckks.from_bytes(data, stranger)
    other = ckks.keygen(ckks.CKKSParams.build(n=128, levels=3, scale_bits=40, toy=True), "reference")
    with pytest.raises(ParametersMismatchError):
        ckks.from_bytes(ckks.to_bytes(engine.encode([0.5])), other)
    with pytest.raises(ParametersMismatchError):
        ckks.from_bytes(ckks.to_bytes(engine.params), other)


def test_damaged_data(lab: Any) -> None:
    data = ckks.to_bytes(lab.encrypt().ct)
    cases = [
        (b"", TruncatedDataError),
        (b"hello, world", NotRenDataError),
        (data[: len(data) // 2], TruncatedDataError),
        (data[:8] + (2).to_bytes(2, "little") + data[10:], FormatVersionError),
    ]
    for bad, error in cases:
        with pytest.raises(error):
            ckks.from_bytes(bad, lab.engine)
    for at in np.linspace(110, len(data) - 1, 20).astype(int):
        flipped = bytearray(data)
        flipped[at] ^= 1
        with pytest.raises(ChecksumError):
            ckks.from_bytes(bytes(flipped), lab.engine)


def test_nothing_secret_is_written_by_accident(new_engine: Make, tmp_path: Path) -> None:
    engine = new_engine()
    for thing in (engine, engine.secret_key):
        with pytest.raises(SecretExportError):
            ckks.to_bytes(thing)
    with pytest.raises(UnsupportedOperandError):
        ckks.to_bytes(3)
    with pytest.raises(UnsupportedOperandError):
        ckks.save_secret(engine.public(), tmp_path / "s")
    server = ckks.to_bytes(engine.public(relinearization=True))
    for row in engine.secret_key.reveal().residues():
        assert row.tobytes() not in server
    signs = np.array(engine.secret_key.reveal().to_centered_list(), np.int8).tobytes()
    assert signs not in server and signs[:64] not in server


def test_the_secret_in_a_file_of_its_own(new_engine: Make, tmp_path: Path) -> None:
    engine = new_engine()
    x = engine.encrypt(engine.encode([0.5]))
    path = tmp_path / "secret.ren"
    ckks.save_secret(engine, path)
    assert os.stat(path).st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        ckks.save_secret(engine, path)
    ckks.save_secret(engine, path, overwrite=True)
    key = ckks.load_secret(path, device="reference")
    assert key.reveal() == engine.secret_key.reveal()
    again = ckks.Engine(key.params, "reference", secret_key=key)
    assert again.key_id == engine.key_id
    assert again.decode(again.decrypt(x), 1)[0] == pytest.approx(0.5, abs=1e-6)
    with pytest.raises(FormatError, match="load_secret"):
        ckks.from_bytes(path.read_bytes())


def test_three_files_and_two_processes(new_engine: Make, tmp_path: Path) -> None:
    """The client keeps one file, the server gets another, data travels in a third: each side in a process of its own."""
    engine = new_engine()
    ckks.save_secret(engine, tmp_path / "secret.ren")
    (tmp_path / "server.ren").write_bytes(ckks.to_bytes(engine.public(rotations=[1], relinearization=True)))
    (tmp_path / "x.ren").write_bytes(ckks.to_bytes(engine.encrypt(engine.encode([0.5, 0.25]))))
    serve = (
        "from ren.schemes import ckks\n"
        "engine = ckks.from_bytes(open('server.ren', 'rb').read())\n"
        "x = ckks.from_bytes(open('x.ren', 'rb').read(), engine)\n"
        "with engine:\n"
        "    y = (x * x).rotate(1) + 1\n"
        "try:\n"
        "    engine.decrypt(y)\n"
        "except LookupError as error:\n"
        "    print(error)\n"
        "open('y.ren', 'wb').write(ckks.to_bytes(y))\n"
    )
    environment = {**os.environ, "REN_BACKEND": "reference"}
    done = subprocess.run(
        [sys.executable, "-c", serve],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no secret key here" in done.stdout
    key = ckks.load_secret(tmp_path / "secret.ren", device="reference")
    client = ckks.Engine(key.params, "reference", secret_key=key)
    y = ckks.from_bytes((tmp_path / "y.ren").read_bytes(), client)
    np.testing.assert_allclose(client.decode(client.decrypt(y), 3), [1.0, 1.25, 1.0625], atol=1e-6)
