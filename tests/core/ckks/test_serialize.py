"""The file format: every kind of damage has its own typed error, nothing is allocated for a lie, no secrets by accident."""

from __future__ import annotations

import json
import os
import pickle
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ren import errors
from ren.schemes.ckks import serialize
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.serialize import (
    HEADER_BYTES,
    pack_residues,
    read_file,
    read_record,
    unpack_residues,
    write_file,
    write_record,
    write_secret_file,
)

FINGERPRINT, KEY = "ab" * 16, "cd" * 16
ROWS = np.arange(16, dtype=np.uint64).reshape(2, 8)


def record(**changes: Any) -> bytes:
    values: dict[str, Any] = {
        "facts": {"level": 3, "scale": "2^40"},
        "blocks": [ROWS, b"tail"],
        "fingerprint": FINGERPRINT,
        "key_id": KEY,
        **changes,
    }
    return write_record(values.pop("kind", "ciphertext"), **values)


def resealed(data: bytes | bytearray) -> bytes:
    """The data with a valid checksum: what a hostile writer would send."""
    import hashlib

    raw = bytearray(data)
    raw[HEADER_BYTES - 32 : HEADER_BYTES] = hashlib.sha256(raw[: HEADER_BYTES - 32] + raw[HEADER_BYTES:]).digest()
    return bytes(raw)


def test_round_trip() -> None:
    r = read_record(record(), kind="ciphertext", fingerprint=FINGERPRINT, key_id=KEY)
    assert (r.kind, r.version, r.fingerprint, r.key_id, r.facts) == (
        "ciphertext",
        1,
        FINGERPRINT,
        KEY,
        {"level": 3, "scale": "2^40"},
    )
    assert np.array_equal(np.frombuffer(r.blocks[0], np.uint64).reshape(2, 8), ROWS) and bytes(r.blocks[1]) == b"tail"
    assert r.fact("level", int) == 3
    for name, kind in (("level", str), ("absent", int)):
        with pytest.raises(errors.FormatError, match=name):
            r.fact(name, kind)
    assert read_record(bytearray(record())).facts == read_record(memoryview(record())).facts == r.facts
    assert record() == record(), "the same object gives the same bytes"


def test_b27_a_newer_version_is_named() -> None:
    data = bytearray(record())
    data[8] += 1
    with pytest.raises(errors.FormatVersionError, match="version 2 is not known; this release reads version 1"):
        read_record(data)


def test_b27_every_truncation_is_seen() -> None:
    data = record()
    for size in range(len(data)):
        with pytest.raises(errors.TruncatedDataError):
            read_record(data[:size])


def test_b27_every_flipped_bit_is_seen() -> None:
    data = record()
    for i in range(len(data)):
        for bit in (0, 3, 7):
            altered = bytearray(data)
            altered[i] ^= 1 << bit
            with pytest.raises(errors.FormatError):
                read_record(altered)
    altered = bytearray(data)
    altered[-1] ^= 1
    with pytest.raises(errors.ChecksumError, match="altered"):
        read_record(altered)


@pytest.mark.parametrize(
    "data",
    [
        b"hello, this is a text file\n" * 10,
        b"\x80\x04N.",
        pickle.dumps({"a": 1}),
        b"PK\x03\x04" + bytes(200),
        bytes(500),
    ],
)
def test_b27_other_files_are_not_ours(data: bytes) -> None:
    with pytest.raises(errors.NotRenDataError):
        read_record(data)


def test_b27_zero_bytes() -> None:
    with pytest.raises(errors.TruncatedDataError, match="zero bytes"):
        read_record(b"")


def test_the_wrong_kind_parameters_or_key_is_named_before_the_payload_is_read() -> None:
    data = record()[:HEADER_BYTES] + b""
    with pytest.raises(errors.WrongKindError, match="expected a public-key, found a ciphertext"):
        read_record(data, kind="public-key")
    with pytest.raises(errors.ParametersMismatchError, match=FINGERPRINT):
        read_record(data, fingerprint="00" * 15 + "01")
    with pytest.raises(errors.KeyMismatchError, match=KEY):
        read_record(data, key_id="00" * 15 + "01")


def test_every_failure_is_a_value_error() -> None:
    for name in (
        "NotRenDataError",
        "WrongKindError",
        "FormatVersionError",
        "TruncatedDataError",
        "ChecksumError",
        "DataTooLargeError",
        "ParametersMismatchError",
    ):
        kind = getattr(errors, name)
        assert issubclass(kind, errors.FormatError) and issubclass(kind, ValueError)
    assert len({k.code for k in errors.FormatError.__subclasses__()}) == len(errors.FormatError.__subclasses__())


def test_announced_lengths_are_never_allocated(tmp_path: Path) -> None:
    data = bytearray(record())
    data[68:76] = (1 << 62).to_bytes(8, "little")
    path = tmp_path / "lie"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(errors.DataTooLargeError, match="the limit is"):
            read_file(path)
        with pytest.raises(errors.TruncatedDataError):
            read_file(path, max_bytes=1 << 63)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(errors.DataTooLargeError):
        read_record(record(), max_bytes=10)


def test_a_sealed_but_inconsistent_inside_is_refused() -> None:
    data = record()
    body = bytearray(data)
    body[10:12] = (7).to_bytes(2, "little")  # more blocks than there are
    with pytest.raises(errors.FormatError, match="block 2"):
        read_record(resealed(body))
    body = bytearray(data)
    body[10:12] = (1).to_bytes(2, "little")  # fewer
    with pytest.raises(errors.FormatError, match="left over"):
        read_record(resealed(body))
    body = bytearray(data)
    body[12:16] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(errors.FormatError, match="bytes of facts"):
        read_record(resealed(body))
    for text in (b"[1]", b"not json", b'{"a":' + b"[" * 5000, b'{"n":' + b"9" * 5000 + b"}"):
        body = bytearray(write_record("ciphertext", facts={}))
        body[12:16] = len(text).to_bytes(4, "little")
        body[68:76] = len(text).to_bytes(8, "little")
        with pytest.raises(errors.FormatError):
            read_record(resealed(bytes(body[:HEADER_BYTES]) + text))
    with pytest.raises(errors.FormatError, match="3 bytes follow"):
        read_record(data + b"xyz")


#: A file of every format version ever released: entries are added, never changed.
RELEASED = {
    1: bytes.fromhex(
        "8952454e0d0a1a0a010000007c000000706172616d657465727300000000000000000000b1780c591e934973c83f5ec1e627ca230000000000000000"
        "00000000000000007c0000000000000095f25b1ac85d850e6688600ccdd3b1bca44ffed068b60faff4f9b619ab152e067b226e223a382c2263686169"
        "6e223a5b313037333734313434312c313034383630395d2c227370656369616c223a5b31373137393836333037335d2c22616c706861223a312c2273"
        "63616c655f62697473223a32302c227369676d61223a22332e3139222c22746f79223a747275652c226e616d65223a227631227d"
    ),
}


def test_b27_files_of_all_released_versions_load() -> None:
    assert sorted(RELEASED) == list(range(1, serialize.VERSION + 1))
    for data in RELEASED.values():
        p = CKKSParams.from_bytes(data)
        assert (p.n, p.levels, p.scale_bits, p.name) == (
            8,
            1,
            20,
            "v1",
        ) and p.fingerprint == "b1780c591e934973c83f5ec1e627ca23"


def test_residues_are_stored_in_as_few_bytes_as_they_need() -> None:
    p = CKKSParams.python_test()
    rng = np.random.default_rng(3)
    rows = np.stack([rng.integers(0, q, p.n, dtype=np.uint64) for q in p.key_ring.moduli])
    rows[:, 0] = [q - 1 for q in p.key_ring.moduli]
    rows[:, 1] = 0
    data = pack_residues(rows, p.key_ring.moduli)
    assert len(data) == p.n * sum(-(-q.bit_length() // 8) for q in p.key_ring.moduli) < rows.nbytes
    back = unpack_residues(data, p.n, p.key_ring.moduli)
    assert np.array_equal(back, rows) and back.dtype == np.uint64 and back.flags.writeable


def test_malformed_residues_are_refused() -> None:
    p = CKKSParams.python_test()
    rows = np.zeros((7, p.n), np.uint64)
    rows[2, 5] = p.chain[2]
    with pytest.raises(errors.FormatError, match="not below its modulus"):
        unpack_residues(pack_residues(rows, p.chain), p.n, p.chain)
    with pytest.raises(errors.FormatError, match="bytes found"):
        unpack_residues(pack_residues(rows, p.chain)[:-1], p.n, p.chain)


def test_files_are_whole_and_keep_the_usual_mode(tmp_path: Path) -> None:
    path = tmp_path / "c.ren"
    write_file(path, record())
    write_file(path, record())
    assert read_file(path, kind="ciphertext").facts["level"] == 3
    assert os.listdir(tmp_path) == ["c.ren"]
    path.write_bytes(record()[:50])
    with pytest.raises(errors.TruncatedDataError):
        read_file(path)


def test_secrets_are_written_only_by_their_own_call_and_for_their_owner(tmp_path: Path) -> None:
    with pytest.raises(errors.SecretExportError):
        write_record("secret-key", facts={})
    data = write_record("secret-key", facts={}, secret=True)
    with pytest.raises(errors.SecretExportError):
        write_file(tmp_path / "k", data)
    old = os.umask(0)
    try:
        write_secret_file(tmp_path / "k", data)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_secret_file(tmp_path / "k", data)
    write_secret_file(tmp_path / "k", data, overwrite=True)
    assert os.listdir(tmp_path) == ["k"]


def test_b25_parameters_compare_by_value_after_loading() -> None:
    for p in (CKKSParams.python_test(), CKKSParams.preset("slots8192-scale40-levels7")):
        loaded = CKKSParams.from_bytes(p.to_bytes())
        again = CKKSParams.from_bytes(p.to_bytes())
        assert loaded == p == again and loaded.fingerprint == p.fingerprint and loaded is not p


def test_hostile_parameters_are_refused() -> None:
    p = CKKSParams.python_test()

    def altered(**facts: Any) -> bytes:
        good = read_record(p.to_bytes()).facts
        return write_record("parameters", facts={**good, **facts}, fingerprint=p.fingerprint)

    for facts in ({"n": "128"}, {"chain": [1.5]}, {"chain": [3] * 10**4}, {"toy": 1}, {"n": True}, {"scale_bits": 39}):
        with pytest.raises(errors.FormatError):
            CKKSParams.from_bytes(altered(**facts))
    for facts in ({"n": 1 << 40}, {"chain": [4, 6]}, {"toy": False}, {"alpha": 0}):
        with pytest.raises(ValueError):
            CKKSParams.from_bytes(altered(**facts))
    assert json.loads(json.dumps(read_record(p.to_bytes()).facts)) == read_record(p.to_bytes()).facts


def test_the_format_is_documented_where_it_is_written() -> None:
    assert serialize.HEADER_BYTES == 108 and "108           facts" in (serialize.__doc__ or "")
