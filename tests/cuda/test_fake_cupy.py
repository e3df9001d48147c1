"""A test of the tests: each mistake in driving CuPy, planted one at a time in `cupy_device.py`, is noticed on the fake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from emulator import MISSING

import ren_backend_cuda

pytestmark = [pytest.mark.full, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

FILE = Path(ren_backend_cuda.__file__).parent / "cupy_device.py"
MISTAKES = {
    "pinned memory is released before its copy": (
        "self._uploads.append((self._event(stream), pinned, piece.nbytes))",
        "self._uploads.append((self._event(stream), None, piece.nbytes))",
    ),
    "a graph dies with its recording": (
        "weakref.finalize(self, device.retired.append, (graph, launches)).atexit = False",
        "pass",
    ),
    "dead recordings are let go at once": ("self._graves.append((self._event(self._stream), [dead]))", "pass"),
    "the capture is on the stream of all": (
        "with self.active(), self._capture_lock, self._capture:",
        "with self.active(), self._capture_lock:",
    ),
    "another thread's allocation breaks the capture": (
        "streamCaptureModeThreadLocal)",
        "streamCaptureModeThreadLocal - 1)",
    ),
    "numbers without a size": ("np.uint64(a.address) if isinstance", "a.address if isinstance"),
    "a kernel is loaded inside the capture": ('loaded.attributes["max_threads_per_block"]', "256"),
    "shared memory is not asked for": ("function.kernel.max_dynamic_shared_size_bytes = launch.shared_bytes", "pass"),
    "a child process goes on": ("if os.getpid() != self._process:", "if False:"),
    "an allocation on no stream": (
        "        with self.active():\n            self._bury()\n            return CupyMemory",
        "        if True:\n            self._bury()\n            return CupyMemory",
    ),
    "an offset in words": ("(target.pointer + 8 * (offset + start))", "(target.pointer + (offset + start))"),
    "a download that does not wait": ("            stream.synchronize()\n        return data", "        return data"),
}
#: Runs the tests of the device with the file's text replaced.
CODE = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader
class Loader(SourceFileLoader):
    def get_data(self, path):
        data = super().get_data(path)
        return data.replace({right!r}, {wrong!r}) if path.endswith("cupy_device.py") else data
    def get_code(self, name):
        return compile(self.get_data(self.path), self.path, "exec")
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "ren_backend_cuda.cupy_device":
            return importlib.util.spec_from_file_location(name, {file!r}, loader=Loader(name, {file!r}))
sys.meta_path.insert(0, Finder())
import pytest
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-k", "not exist_in_cupy", {tests!r}]))
"""


def outcome(right, wrong):
    tests = str(Path(__file__).with_name("test_cupy_device.py"))
    code = CODE.format(right=right.encode(), wrong=wrong.encode(), file=str(FILE), tests=tests)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake):
    right, wrong = MISTAKES[mistake]
    assert FILE.read_text().count(right) == 1
    assert outcome(right, wrong) == 1


def test_without_a_mistake_all_is_well():
    assert outcome("nothing", "nothing") == 0
