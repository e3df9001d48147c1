"""Compiled programs in files: they come back the same, carry nothing secret, and no file, however made, does anything but raise a typed error."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.errors import (
    ChecksumError,
    FormatError,
    NotRenDataError,
    ParametersMismatchError,
    ProgramInputError,
    ProgramNotReadyError,
    ProgramParseError,
    RenError,
    TruncatedDataError,
    WrongKindError,
)
from ren.program import encrypted, location, message, types
from ren.program.dialect import source_of
from ren.program.interpret import interpret
from ren.program.plan_file import KIND, load_plan
from ren.schemes import ckks
from ren.schemes.ckks.serialize import read_record, write_record
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for

S = 64
X = np.cos(np.arange(S))
W = np.linspace(-1, 1, S)
SECRET_W = np.arange(S) + 0.123456789


def build() -> Any:
    b = ProgramBuilder(x=encrypted(), v=message())
    w = b("ren.material.ref", types=[types.message((S,), "float64")], symbol="layer.weight", kind="tensor")
    y = b("ren.ckks.rotate", b.times(b["x"], w), shift=1)
    return b.program(b.plus(b.product(y, y), b["v"]))


@pytest.fixture(scope="module")
def saved(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A file, the program in it, and its workspace."""
    program = build()
    space = workspace_for(program, engine, materials={"layer.weight": SECRET_W})
    compiled = program.compile(space)
    compiled(fresh(engine), W)
    path = tmp_path_factory.mktemp("plan") / "plan.ren"
    compiled.save(path)
    return path, program, space


def fresh(engine: Any) -> Any:
    return engine.encrypt(engine.encode(X, msg_bound=2.0))


def test_a_loaded_plan_gives_the_same_bits(engine: Any, saved: Any) -> None:
    path, program, space = saved
    loaded = jit.load_plan(path)
    assert isinstance(loaded, jit.CompiledProgram)
    assert loaded.program.to_text(include_locations=True) == program.to_text(include_locations=True)
    x = fresh(engine)
    for _ in range(2):
        got = loaded.run(x, W, workspace=space)
    want = interpret(program, x, W, workspace=space)
    assert got.b.residues().tolist() == want.b.residues().tolist()
    assert (got.level, got.scale, got.slots, got.bound) == (want.level, want.scale, want.slots, want.bound)
    assert loaded.cache_info()[:2] == (1, 1)
    np.testing.assert_allclose(decoded(engine, got), np.roll(X * SECRET_W, 1) ** 2 + W, atol=1e-5)
    with pytest.raises(ProgramNotReadyError):
        loaded(x, W)  # it has no workspace of its own


def test_another_owner_with_equal_parameters_runs_it(saved: Any) -> None:
    path, program, _ = saved
    other = ckks.Engine("python-test", device="reference")
    space = workspace_for(program, other, materials={"layer.weight": W})
    got = jit.load_plan(path).run(fresh(other), W, workspace=space)
    np.testing.assert_allclose(decoded(other, got), np.roll(X * W, 1) ** 2 + W, atol=1e-7)


def test_other_parameters_are_refused_with_what_differs(saved: Any) -> None:
    path, program, _ = saved
    other = ckks.Engine(ckks.CKKSParams.build(n=128, levels=4, scale_bits=40, toy=True), device="reference")
    space = workspace_for(program, other, materials={"layer.weight": W})
    with pytest.raises(ParametersMismatchError, match=r"chain \[.*\] in the file, \[.*\] in the engine"):
        jit.load_plan(path).run(fresh(other), W, workspace=space)


def test_a_file_holds_no_key_no_data_and_no_python(engine: Any, saved: Any) -> None:
    data = saved[0].read_bytes()
    assert len(data) < 10_000
    assert engine.key_id.encode() not in data
    assert bytes.fromhex(engine.key_id) not in data
    assert SECRET_W.tobytes()[:16] not in data
    assert b"123456789" not in data
    assert b"float64[64]" in data  # shape and type only
    assert not any(bytes([op]) + b"c" in data[:2] for op in (0x80,))
    with pytest.raises((pickle.UnpicklingError, ValueError, IndexError, KeyError, EOFError)):
        pickle.loads(data)


def test_a_compiled_program_is_not_pickled(engine: Any, saved: Any) -> None:
    _, program, space = saved
    with pytest.raises(RenError, match="not pickled"):
        pickle.dumps(program.compile(space))


def test_the_schedule_is_the_same_in_another_process(engine: Any, saved: Any) -> None:
    """What the file says of a plan does not depend on hashes, addresses or keys."""
    path, *_ = saved
    code = (
        "import sys, numpy as np\n"
        "from ren import jit\nfrom ren.schemes import ckks\nfrom ren.testing.program_kit import workspace_for\n"
        "loaded = jit.load_plan(sys.argv[1])\n"
        "engine = ckks.Engine('python-test', device='reference')\n"
        "space = workspace_for(loaded.program, engine, materials={'layer.weight': np.ones(64)})\n"
        "x = engine.encrypt(engine.encode(np.ones(64)))\n"
        "loaded.run(x, np.ones(64), workspace=space)\n"
        "loaded.save(sys.argv[2], workspace=space)\n"
    )
    again = path.with_name("again.ren")
    subprocess.run([sys.executable, "-c", code, str(path), str(again)], check=True)
    plans = [read_record(p.read_bytes()).facts["plans"] for p in (path, again)]
    assert plans[0] == plans[1]
    assert len(plans[0]) == 1


# -- hostile files ---------------------------------------------------------------------------------------------------


def rewritten(path: Path, **changes: Any) -> bytes:
    """The file with other facts or another text, and a checksum that fits."""
    record = read_record(path.read_bytes())
    text = changes.pop("text", bytes(record.blocks[0]))
    blocks = changes.pop("blocks", [text])
    fingerprint = changes.pop("fingerprint", record.fingerprint)
    return write_record(
        changes.pop("kind", KIND), facts={**record.facts, **changes}, blocks=blocks, fingerprint=fingerprint
    )


def test_an_altered_schedule_is_refused(engine: Any, saved: Any, tmp_path: Path) -> None:
    """The file is consistent in itself; but a plan is derived from the text, and the file says another one."""
    path, _, space = saved
    kind, units, arena, digest = read_record(path.read_bytes()).facts["plans"][0]
    for row in ([kind, units + 1, arena, digest], [kind, units, arena + 8, digest], [kind, units, arena, digest[::-1]]):
        forged = tmp_path / "forged.ren"
        forged.write_bytes(rewritten(path, plans=[row]))
        with pytest.raises(FormatError, match="the file was altered"):
            load_plan(forged).run(fresh(engine), W, workspace=space)


def test_an_altered_program_is_another_program_and_is_checked_as_one(engine: Any, saved: Any, tmp_path: Path) -> None:
    path, _, space = saved
    text = bytes(read_record(path.read_bytes()).blocks[0]).decode()
    forged = tmp_path / "forged.ren"
    forged.write_bytes(rewritten(path, text=text.replace("shift = 1", "shift = 2").encode()))
    with pytest.raises(ProgramNotReadyError, match="incomplete-evaluation-keys"):
        load_plan(forged).run(fresh(engine), W, workspace=space)
    forged.write_bytes(rewritten(path, text=text.replace("ren.ckks.rotate", "app.anything").encode()))
    with pytest.raises((ProgramNotReadyError, ProgramParseError)):
        load_plan(forged).run(fresh(engine), W, workspace=space)


@pytest.mark.parametrize(
    "changes",
    [
        {"entry": 1},
        {"entry": "nobody"},
        {"device": None},
        {"version": ["x"]},
        {"params": "zz"},
        {"params": "00"},
        {"params": 5},
        {"plans": {}},
        {"plans": [[1]]},
        {"plans": [["a", True, 1, "b"]]},
        {"plans": [["a", 1, 1, "b"]] * 5000},
        {"materials": [["a"]]},
        {"materials": "x"},
        {"blocks": []},
        {"blocks": [b"a", b"b"]},
        {"text": b"\xff\xfe"},
        {"text": b""},
        {"text": b"builtin.module {"},
        {"text": b'"' + b"(" * 100_000},
        {"fingerprint": "00" * 15 + "01"},
        {"kind": "params"},
    ],
    ids=lambda c: next(iter(c)) + "=" + str(next(iter(c.values())))[:12],
)
def test_malformed_files_raise_typed_errors(saved: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "forged.ren"
    path.write_bytes(rewritten(saved[0], **changes))
    with pytest.raises(RenError):
        load_plan(path)


def test_files_that_are_no_plans(saved: Any, tmp_path: Path) -> None:
    data = saved[0].read_bytes()
    path = tmp_path / "plan.ren"
    for content, error in (
        (b"", TruncatedDataError),
        (b"builtin.module {}", NotRenDataError),
        (data[:50], TruncatedDataError),
        (data[:-1], TruncatedDataError),
        (data + b"x", FormatError),
        (data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], ChecksumError),
        (ckks.to_bytes(ckks.CKKSParams.python_test()), WrongKindError),
        (pickle.dumps({"a": 1}), NotRenDataError),
    ):
        path.write_bytes(content)
        with pytest.raises(error):
            load_plan(path)
    with pytest.raises(FileNotFoundError):
        load_plan(tmp_path / "absent")


def test_mutated_bytes_never_do_anything_but_raise(engine: Any, saved: Any, tmp_path: Path) -> None:
    """Bytes changed at random, once as an accident (the checksum finds it) and once with a checksum made to fit: what loads runs or is refused with a typed error."""
    path, _, space = saved
    data = path.read_bytes()
    record = read_record(data)
    text, facts = bytes(record.blocks[0]), json.dumps(record.facts)
    rng = random.Random(1)
    forged = tmp_path / "forged.ren"
    x = fresh(engine)
    loaded = 0
    for round_ in range(150):
        if round_ % 3 == 0:
            content = _mutated(rng, data)
        elif round_ % 3 == 1:
            content = rewritten(path, text=_mutated(rng, text))
        else:
            try:
                changed = json.loads(_mutated(rng, facts.encode()))
                content = write_record(KIND, facts=changed, blocks=[text], fingerprint=record.fingerprint)
            except (ValueError, TypeError):
                continue
        forged.write_bytes(content)
        try:
            plan = load_plan(forged)
            loaded += 1
            plan.run(x, W, workspace=space)
        except RenError:
            pass
    assert loaded > 5


def _mutated(rng: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.choice(b'0123456789"<>(){}%,=sx\x00\xff')
            case 2:
                del found[at : at + rng.randrange(1, 9)]
            case _:
                found[at:at] = found[at : at + rng.randrange(1, 9)]
    return bytes(found)


def test_a_file_says_nothing_of_where_sources_lie(engine: Any, tmp_path: Path) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.negate", b["x"], loc=location("/home/somebody/secret project/model.py", 7))
    program = b.program(b("ren.ckks.rotate", out, shift=1, loc=location("C:\\Users\\somebody\\other.py", 8)))
    compiled = program.compile(workspace_for(program, engine))
    compiled(fresh(engine))
    compiled.save(tmp_path / "plan.ren")
    content = (tmp_path / "plan.ren").read_bytes()
    assert b"somebody" not in content
    ops = list(load_plan(tmp_path / "plan.ren").program.entry_block().ops)
    assert [source_of(op) for op in ops[:2]] == [("model.py", 7), ("other.py", 8)]
    assert source_of(next(iter(program.entry_block().ops))) == ("/home/somebody/secret project/model.py", 7)


def test_materials_of_another_shape_are_refused(engine: Any, saved: Any) -> None:
    path, program, _ = saved
    loaded = jit.load_plan(path)
    for other in (np.ones(3), np.ones((2, 32)), "weights"):
        space = workspace_for(program, engine, materials={"layer.weight": other})
        with pytest.raises(
            ProgramInputError, match=r"material 'layer.weight' had shape \[64\] when the plan was saved"
        ):
            loaded.run(fresh(engine), W, workspace=space)
    space = workspace_for(program, engine, materials={"layer.weight": SECRET_W.astype(np.float32)})
    got = decoded(engine, loaded.run(fresh(engine), W, workspace=space))
    np.testing.assert_allclose(got, np.roll(X * SECRET_W, 1) ** 2 + W, rtol=1e-4, atol=1e-3)


def test_materials_that_the_program_does_not_have_are_an_altered_file(saved: Any, tmp_path: Path) -> None:
    record = read_record(saved[0].read_bytes(), kind=KIND)
    facts = {**record.facts, "materials": [["another", "float64[64]"]]}
    data = write_record(KIND, facts=facts, blocks=[bytes(b) for b in record.blocks], fingerprint=record.fingerprint)
    (tmp_path / "plan.ren").write_bytes(data)
    with pytest.raises(FormatError, match="the materials listed are not those of the program"):
        load_plan(tmp_path / "plan.ren")
