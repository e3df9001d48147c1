"""Stored machine code: used when it is right, never when it is stale, and done without where there is no place for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import ren_backend_cpu
from ren_backend_cpu import cache

#: Adds two residues through the backend and prints the sum, then whether the kernel came from the disk.
_ADD = """
import numpy as np
from ren.engine.exec_unit import ExecUnit, Operand
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend
from ren_backend_cpu.kernels import elementwise
b = CpuBackend()
x, y, z = (Operand(k, 0, 2) for k in range(3))
m = [b.alloc(2) for _ in range(3)]
for memory, value in zip(m, (12, 9)):
    b.copyin(memory, 0, np.full(2, value, np.uint64))
unit = ExecUnit("elementwise", RingSpec(2, (17,)), (2, 0, (("add", 0, 1),), (2,), Domain.NTT), (x, y), (), (z,))
b.compile(unit)([(v, 0) for v in m])
print(int(b.copyout(m[2], 0, 1)[0]), "disk" if elementwise.elementwise.from_disk else "compiled")
"""


def start(environment: dict[str, str], code: str = _ADD) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out.strip(), err


def run(environment: dict[str, str], code: str = _ADD) -> tuple[str, str]:
    return finish(start(environment, code))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that two processes filled at the same time."""
    folder = tmp_path_factory.mktemp("cache")
    both = [start({"REN_CACHE_DIR": str(folder)}) for _ in range(2)]
    for process in both:
        out, err = finish(process)
        assert out.split()[0] == "4"
        assert "CacheWarning" not in err
    return folder


def test_a_second_process_reads_what_the_first_stored(stored: Path) -> None:
    assert run({"REN_CACHE_DIR": str(stored)})[0] == "4 disk"


def test_a_changed_generator_is_not_served_stale_code(stored: Path, tmp_path: Path) -> None:
    """numba looks only at the file of the decorated function; here another one changes what it compiles to."""
    source = Path(ren_backend_cpu.__file__).parent
    copy = tmp_path / "ren_backend_cpu"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"REN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    assert run(environment)[0] == "4 compiled"
    assert run(environment)[0] == "4 disk"
    arith = copy / "kernels" / "arith.py"
    text = arith.read_text()
    right = "return self.csub(self.b.add(x, y), self.q)"
    assert text.count(right) == 1
    arith.write_text(text.replace(right, "return self.b.add(x, y)"))
    assert run(environment)[0] == "21 compiled"


def test_other_arithmetic_has_a_folder_of_its_own(stored: Path) -> None:
    restricted = {"REN_CACHE_DIR": str(stored), "REN_CPU_FEATURES": "scalar"}
    code = "from ren_backend_cpu import cache; print(cache.folder())"
    assert run(restricted, code)[0] != run({"REN_CACHE_DIR": str(stored)}, code)[0]


@pytest.mark.parametrize("pattern", ("*.nbi", "*.nbc"))
def test_damaged_files_are_left_alone_with_one_warning(stored: Path, tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(stored, folder)
    files = list(folder.rglob(pattern))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    out, err = run({"REN_CACHE_DIR": str(folder)})
    assert out == "4 compiled"
    assert err.count("CacheWarning:") == 1


def test_without_a_place_kernels_are_compiled_with_one_warning(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    out, err = run({"REN_CACHE_DIR": str(occupied / "below")})
    assert out == "4 compiled"
    assert err.count("CacheWarning:") == 1
    assert "Set REN_CACHE_DIR" in err


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not chosen its folder yet."""
    monkeypatch.setattr(cache, "_folder", [])


@pytest.mark.usefixtures("undecided")
class TestFolder:
    def test_no_home_and_unknown_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pwd = pytest.importorskip("pwd")

        def unknown(uid: int) -> None:
            raise KeyError(f"getpwuid(): uid not found: {uid}")

        for name in ("REN_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(pwd, "getpwuid", unknown)
        with pytest.warns(cache.CacheWarning, match="cannot be kept"):
            assert cache.folder() is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert cache.folder() is None, "decided once, warned once"

    def test_a_folder_that_others_may_write_to_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path))
        shared = tmp_path / f"cpu-{cache.digest()}"
        shared.mkdir()
        shared.chmod(0o777)
        with pytest.warns(cache.CacheWarning, match="other users may write"):
            assert cache.folder() is None

    def test_a_folder_of_another_user_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
        with pytest.warns(cache.CacheWarning, match="belongs to user"):
            assert cache.folder() is None

    def test_a_fresh_folder_is_private(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path / "new"))
        found = cache.folder()
        assert found is not None
        assert found.stat().st_mode & 0o077 == 0

    def test_folders_of_earlier_versions_are_removed_when_long_unused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path))
        old, recent, foreign = tmp_path / f"cpu-{'0' * 20}", tmp_path / f"cpu-{'1' * 20}", tmp_path / "cpu-notes"
        for path in (old, recent, foreign):
            path.mkdir()
            (path / "kernel.nbc").write_text("code")
        for path in (old, foreign):
            os.utime(path, (0, 0))
        found = cache.folder()
        assert not old.exists()
        assert set(tmp_path.iterdir()) == {recent, foreign, found}


def test_numba_keeps_its_own_folder_for_others() -> None:
    from numba.core import config

    before = config.CACHE_DIR
    with cache.numba_cache():
        pass
    assert before == config.CACHE_DIR
