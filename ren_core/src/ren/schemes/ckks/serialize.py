"""One file format for everything: a fixed header, then JSON facts, then blocks of bytes. No pickle, nothing executable.

Layout of version 1 (integers little-endian):

    offset  size  content
    0       8     magic 89 52 45 4e 0d 0a 1a 0a ("\\x89REN", then line ends that text-mode copies damage)
    8       2     format version
    10      2     number of blocks
    12      4     length of the facts
    16      20    kind, ASCII, padded with zeros
    36      16    fingerprint of the parameters (zeros: none)
    52      16    key id (zeros: none)
    68      8     length of the payload: facts and blocks
    76      32    SHA-256 of bytes 0..75 and the payload
    108           facts (UTF-8 JSON object), then for each block its length (8 bytes) and its bytes

Checks run in this order, each with its own error, and none allocates before the size is known to be acceptable: magic, version, kind, parameters, key, length,
checksum. The checksum finds accidents, not forgery: sign files that cross a trust boundary.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ren.errors import (
    ChecksumError,
    DataTooLargeError,
    FormatError,
    FormatVersionError,
    KeyMismatchError,
    NotRenDataError,
    ParametersMismatchError,
    SecretExportError,
    TruncatedDataError,
    UnsupportedOperandError,
    WrongKindError,
)

MAGIC = b"\x89REN\r\n\x1a\n"
VERSION = 1
#: Records of these kinds hold secrets: only the `secret=True` calls write them.
SECRET_KINDS = frozenset({"secret-key"})
#: Refuse to read more than this unless the caller allows it (a rotation key of the largest ring has about 2 GiB).
DEFAULT_MAX_BYTES = 4 << 30

_HEADER = struct.Struct("<8sHHI20s16s16sQ32s")
HEADER_BYTES = _HEADER.size
_CHECKED = HEADER_BYTES - 32
_MAX_FACTS = 1 << 20
_LENGTH = struct.Struct("<Q")

Block = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Record:
    """What was read. fingerprint and key_id: 32 hexadecimal digits or ""."""

    kind: str
    version: int
    fingerprint: str
    key_id: str
    facts: dict[str, Any]
    blocks: tuple[memoryview, ...] = field(repr=False)

    def fact(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """The fact `name`. Raises FormatError when it is absent or of another type (True is not an int here)."""
        value = self.facts.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FormatError(f"{self.kind}: the fact {name!r} is missing or malformed", subject=name)
        return value


# -- bytes -----------------------------------------------------------------------------------------------------------


def write_record(
    kind: str,
    *,
    facts: Mapping[str, Any],
    blocks: Sequence[Block | NDArray[Any]] = (),
    fingerprint: str = "",
    key_id: str = "",
    secret: bool = False,
) -> bytes:
    """The bytes of a record. facts: JSON values. blocks: bytes or contiguous arrays, written as they lie in memory.

    Raises SecretExportError when `kind` holds a secret and `secret` is not set.
    """
    if kind in SECRET_KINDS and not secret:
        raise SecretExportError(
            f"a {kind} is only written by its own call", subject=kind, hint="Use the save call of the secret key"
        )
    text = json.dumps(dict(facts), separators=(",", ":"), allow_nan=False).encode()
    parts: list[Block] = [text]
    for block in blocks:
        view = (block.data if isinstance(block, np.ndarray) else memoryview(block)).cast("B")
        parts += [_LENGTH.pack(view.nbytes), view]
    if len(text) > _MAX_FACTS or len(blocks) > 0xFFFF:
        raise FormatError(f"{kind}: too many facts ({len(text)} bytes) or blocks ({len(blocks)})", subject=kind)
    length = sum(len(part) for part in parts)
    head = _HEADER.pack(
        MAGIC,
        VERSION,
        len(blocks),
        len(text),
        kind.encode("ascii"),
        _digits(fingerprint),
        _digits(key_id),
        length,
        bytes(32),
    )[:_CHECKED]
    digest = hashlib.sha256(head)
    for part in parts:
        digest.update(part)
    return b"".join([head, digest.digest(), *parts])


def read_record(
    data: bytes | bytearray | memoryview,
    *,
    kind: str | None = None,
    fingerprint: str | None = None,
    key_id: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Record:
    """Check and take apart the bytes of one record. Blocks are views of `data`: nothing is copied.

    kind, fingerprint, key_id: what must be there (None: anything). Raises NotRenDataError, FormatVersionError, WrongKindError, ParametersMismatchError,
    KeyMismatchError, DataTooLargeError, TruncatedDataError, ChecksumError, or FormatError for an inconsistent inside; all are ValueErrors.
    """
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise UnsupportedOperandError(
            f"stored data are bytes, got {type(data).__name__}",
            subject="data",
            hint="Open files in binary mode; text does not hold them",
        ) from None
    head = _read_header(
        view[:HEADER_BYTES], view.nbytes, kind=kind, fingerprint=fingerprint, key_id=key_id, max_bytes=max_bytes
    )
    payload = view[HEADER_BYTES:]
    digest = hashlib.sha256(view[:_CHECKED])
    digest.update(payload)
    if digest.digest() != head.checksum:
        raise ChecksumError(
            f"{head.kind}: the checksum does not match, the data was altered",
            subject=head.kind,
            hint="Copy or create it again",
        )
    return _READERS[head.version](head, payload)


@dataclass(frozen=True, slots=True)
class _Header:
    version: int
    blocks: int
    facts: int
    kind: str
    fingerprint: str
    key_id: str
    length: int
    checksum: bytes


def _read_header(
    raw: memoryview, size: int, *, kind: str | None, fingerprint: str | None, key_id: str | None, max_bytes: int
) -> _Header:
    """Parse and check a header of data that has `size` bytes in all."""
    if raw.nbytes == 0:
        raise TruncatedDataError("no data: zero bytes", hint="The file was not written completely")
    if bytes(raw[: len(MAGIC)]) != MAGIC[: raw.nbytes]:
        raise NotRenDataError(
            "this is not Ren data: it does not begin with Ren's magic bytes",
            hint="Pass what a `to_bytes` or `save` call wrote",
        )
    if raw.nbytes < HEADER_BYTES:
        raise TruncatedDataError(
            f"the data ends inside its header, after {raw.nbytes} bytes", hint="The file was not written completely"
        )
    _, version, blocks, facts, name, params, key, length, checksum = _HEADER.unpack(raw)
    if version not in _READERS:
        raise FormatVersionError(
            f"format version {version} is not known; this release reads {_span(sorted(_READERS))}",
            subject="version",
            hint="Read it with a newer release of Ren, or write it again with this one",
        )
    text = name.rstrip(b"\0")
    if not text or not all(c in b"abcdefghijklmnopqrstuvwxyz-" for c in text):
        raise ChecksumError(
            "the header is damaged: it names no kind of object", subject="kind", hint="Copy or create it again"
        )
    head = _Header(version, blocks, facts, text.decode(), _hex(params), _hex(key), length, checksum)
    if kind is not None and head.kind != kind:
        raise WrongKindError(
            f"expected a {kind}, found a {head.kind}", subject="kind", hint=f"Load it with the call for a {head.kind}"
        )
    if fingerprint is not None and head.fingerprint != fingerprint:
        raise ParametersMismatchError(
            f"{head.kind}: made with parameters {head.fingerprint or '(none)'}, this context has {fingerprint}",
            subject="parameters",
            hint="Use a context with equal parameters",
        )
    if key_id is not None and head.key_id != key_id:
        raise KeyMismatchError(
            f"{head.kind}: belongs to key {head.key_id or '(none)'}, this context to key {key_id}",
            subject="key",
            hint="Use the context in which it was made",
        )
    if length > max_bytes:
        raise DataTooLargeError(
            f"{head.kind}: {length} bytes, the limit is {max_bytes}",
            subject="length",
            hint="Pass a larger max_bytes if you trust the source",
        )
    if size < HEADER_BYTES + length:
        raise TruncatedDataError(
            f"{head.kind}: {HEADER_BYTES + length} bytes announced, {size} found",
            subject="length",
            hint="The file was not written completely",
        )
    if size > HEADER_BYTES + length:
        raise FormatError(
            f"{head.kind}: {size - HEADER_BYTES - length} bytes follow the end of the data",
            subject="length",
            hint="Pass one record at a time",
        )
    return head


def _read_v1(head: _Header, payload: memoryview) -> Record:
    if head.facts > min(_MAX_FACTS, payload.nbytes):
        raise FormatError(
            f"{head.kind}: {head.facts} bytes of facts announced, at most {min(_MAX_FACTS, payload.nbytes)} are possible",
            subject="facts",
        )
    try:
        facts = json.loads(bytes(payload[: head.facts]))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{head.kind}: the facts are not JSON", subject="facts") from error
    if not isinstance(facts, dict):
        raise FormatError(f"{head.kind}: the facts are not a JSON object", subject="facts")
    rest = payload[head.facts :]
    blocks: list[memoryview] = []
    for _ in range(head.blocks):
        size = _LENGTH.unpack(rest[: _LENGTH.size])[0] if rest.nbytes >= _LENGTH.size else -1
        if not 0 <= size <= rest.nbytes - _LENGTH.size:
            raise FormatError(f"{head.kind}: block {len(blocks)} does not fit the payload", subject="blocks")
        blocks.append(rest[_LENGTH.size : _LENGTH.size + size])
        rest = rest[_LENGTH.size + size :]
    if rest.nbytes:
        raise FormatError(f"{head.kind}: {rest.nbytes} bytes left over after the last block", subject="blocks")
    return Record(head.kind, head.version, head.fingerprint, head.key_id, facts, tuple(blocks))


#: How to read each format version ever released. Entries are never removed; tests keep a file of each.
_READERS: dict[int, Callable[[_Header, memoryview], Record]] = {1: _read_v1}


def _digits(fingerprint: str) -> bytes:
    raw = bytes.fromhex(fingerprint) if fingerprint else bytes(16)
    if len(raw) != 16:
        raise ValueError(f"a fingerprint has 32 hexadecimal digits, got {fingerprint!r}")
    return raw


def _hex(raw: bytes) -> str:
    return raw.hex() if any(raw) else ""


def _span(versions: list[int]) -> str:
    return f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"


# -- residues --------------------------------------------------------------------------------------------------------


def pack_residues(rows: NDArray[np.uint64], moduli: Sequence[int]) -> bytes:
    """rows[limbs, n] with row i in [0, moduli[i]) as bytes: each residue in as many whole bytes as its modulus needs."""
    little = np.ascontiguousarray(rows, dtype="<u8")
    return b"".join(
        np.ascontiguousarray(row.view(np.uint8).reshape(-1, 8)[:, : residue_bytes(q)]).tobytes()
        for row, q in zip(little, moduli, strict=True)
    )


def unpack_residues(data: Block, n: int, moduli: Sequence[int]) -> NDArray[np.uint64]:
    """The inverse of `pack_residues`: a fresh array [limbs, n]. Raises FormatError for a wrong length or a residue not below its modulus."""
    view = memoryview(data).cast("B")
    widths = [residue_bytes(q) for q in moduli]
    if view.nbytes != n * sum(widths):
        raise FormatError(
            f"residues: {view.nbytes} bytes found, {n * sum(widths)} expected for n={n} and {len(widths)} limbs",
            subject="blocks",
        )
    rows = np.zeros((len(widths), n), "<u8")
    at = 0
    for row, width, q in zip(rows, widths, moduli, strict=True):
        row.view(np.uint8).reshape(-1, 8)[:, :width] = np.frombuffer(view, np.uint8, n * width, at).reshape(n, width)
        if int(row.max()) >= q:
            raise FormatError(f"residues: a value is not below its modulus {q}", subject="blocks")
        at += n * width
    return rows.astype(np.uint64, copy=False)


def residue_bytes(modulus: int) -> int:
    """Bytes that hold one residue in a file."""
    return -(-modulus.bit_length() // 8)


# -- files -----------------------------------------------------------------------------------------------------------


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a record to a file, whole or not at all. Raises SecretExportError for records of secrets."""
    kind = _HEADER.unpack(data[:HEADER_BYTES])[4].rstrip(b"\0").decode()
    if kind in SECRET_KINDS:
        raise SecretExportError(
            f"a {kind} is only written by its own call", subject=kind, hint="Use the save call of the secret key"
        )
    _replace(Path(path), data, mode=0o666)


def write_secret_file(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = False) -> None:
    """Write a record that holds a secret to a file that only its owner can read and write (mode 0600).

    Raises FileExistsError when the file exists, unless `overwrite`: a lost secret key cannot be made again.
    """
    if not overwrite and Path(path).exists():
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    _replace(Path(path), data, mode=0o600)


def _replace(path: Path, data: bytes, *, mode: int) -> None:
    # Created with its final mode (less the umask), so a secret is never readable by others, not even for a moment.
    name = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def read_file(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    fingerprint: str | None = None,
    key_id: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Record:
    """As `read_record`, from a file. The header is checked, against the size of the file too, before the rest is read."""
    with open(path, "rb") as file:
        return _read_open(file, kind=kind, fingerprint=fingerprint, key_id=key_id, max_bytes=max_bytes)


def _read_open(file: BinaryIO, **expected: Any) -> Record:
    size = os.fstat(file.fileno()).st_size
    head = file.read(HEADER_BYTES)
    length = _read_header(memoryview(head), size, **expected).length
    return read_record(head + file.read(length), **expected)
