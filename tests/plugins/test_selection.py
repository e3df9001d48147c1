"""Which backend is chosen, what a device that cannot be used says. Fault B51."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import warnings
from typing import Any

import pytest
from ren.backend.capability import DeviceFacts
from ren.backend.reference import ReferenceBackend
from ren.backend.select import backends, default_device, facts, get_backend
from ren.errors import BackendUnavailableError, MissingPluginError, PluginError, PluginWarning
from ren.plugin.registry import Kind
from ren.testing import PluginTester

DEVICES = """
from ren.plugin import PluginInfo, hookimpl
from ren.backend.capability import DeviceFacts
from ren.backend.reference import ReferenceBackend

PLUGIN = PluginInfo(name="devices", api="1.0")
made = []

def maker(name):
    def make():
        backend = ReferenceBackend()
        backend.name = name
        made.append(name)
        return backend
    return make

def absent():
    return DeviceFacts(True, True, False, False, "no device was found", "Plug one in")

def raising_probe():
    raise OSError("libfast.so.1: cannot open shared object file")

def raising_factory():
    raise OSError("out of memory")

@hookimpl
def ren_register_backends(registry):
    registry.add_backend("low", maker("low"), priority=1)
    registry.add_backend("mid", maker("mid"), priority=50)
    registry.add_backend("absent", maker("absent"), priority=300, probe=absent)
    registry.add_backend("driverless", maker("driverless"), priority=250, probe=raising_probe)
    registry.add_backend("odd-probe", maker("odd-probe"), priority=240, probe=lambda: True)
    registry.add_backend("liar", maker("someone-else"), priority=-1)
    registry.add_backend("thing", lambda: 3, priority=-2)
"""
FAILING = DEVICES.replace(
    "priority=1)", 'priority=1)\n    registry.add_backend("failing", raising_factory, priority=100)'
)


def world_of(text: str = DEVICES) -> PluginTester:
    world = PluginTester()
    world.plugin("devices", text)
    return world


def made(world: PluginTester) -> list[str]:
    return list(sys.modules["ren_tester_devices_devices"].made)


def test_explicit_then_environment_then_priority() -> None:
    with world_of() as world, world.active():
        assert default_device() == "mid"
        assert get_backend().name == "mid" and get_backend("low").name == "low"
        assert isinstance(get_backend("reference"), ReferenceBackend)
        world.setenv(REN_BACKEND="low")
        assert default_device() == "low" and get_backend().name == "low" and get_backend("mid").name == "mid"
        world.setenv()
        assert get_backend() is get_backend("mid")
        assert made(world) == ["mid", "low"]


def test_a_backend_is_made_once_for_all_threads() -> None:
    with world_of() as world, world.active():
        start, found = threading.Barrier(8), []

        def ask() -> None:
            start.wait()
            found.append(get_backend())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(found) == 8 and len(set(map(id, found))) == 1 and made(world) == ["mid"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_is_not_stopped_by_a_lock_of_the_parent() -> None:
    """Another thread is making a backend (and holds the locks) while this one forks."""
    slow = DEVICES.replace("    def make():\n", "    def make():\n        entered.set(); leave.wait(20)\n").replace(
        "made = []", "import threading\nmade = []\nentered, leave = threading.Event(), threading.Event()"
    )
    with world_of(slow) as world, world.active():
        world.records()
        module = sys.modules["ren_tester_devices_devices"]
        thread = threading.Thread(target=lambda: get_backend("mid"))
        thread.start()
        assert module.entered.wait(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads is the point here
            child = os.fork()
        if child == 0:
            module.leave.set()
            os._exit(0 if get_backend("mid").name == "mid" else 1)
        status = os.waitpid(child, 0)[1]
        module.leave.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0 and get_backend("mid").name == "mid"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("absent", "no device was found. Plug one in"),
        ("driverless", "libfast.so.1: cannot open shared object file"),
        ("odd-probe", "returned bool, expected DeviceFacts"),
        ("liar", "not a Backend called 'liar'"),
        ("thing", "3, which is not a Backend"),
        ("midd", "Did you mean 'mid'"),
        ("tpu", "no installed plugin names one. Registered: absent, driverless"),
    ],
)
def test_unusable_device_is_a_typed_error(device: str, words: str) -> None:
    with world_of() as world, world.active():
        for _ in range(2):
            with pytest.raises(BackendUnavailableError) as error:
                get_backend(device)
            assert words in str(error.value) and repr(device) in str(error.value)
        world.setenv(REN_BACKEND=device)
        with pytest.raises(BackendUnavailableError, match="REN_BACKEND"):
            get_backend()
        world.setenv()
        assert get_backend().name == "mid"


def test_device_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="device must be a str or None, got 3"):
        get_backend(3)  # type: ignore[arg-type]


def test_failing_factory_is_skipped_with_a_warning_by_default_and_raised_when_asked_for() -> None:
    with world_of(FAILING) as world, world.active():
        with pytest.warns(
            PluginWarning, match="making backend 'failing' raised OSError: out of memory. The next device"
        ) as caught:
            assert default_device() == "mid"
            assert get_backend().name == "mid"
        assert len(caught) == 1
        assert any("out of memory" in note for note in world.record("devices").notes)
        with pytest.raises(BackendUnavailableError, match="out of memory") as error:
            get_backend("failing")
        assert isinstance(error.value.__cause__, OSError)
    with world_of(FAILING) as world, world.active():
        world.setenv(REN_STRICT_PLUGINS="1")
        with pytest.raises(PluginError, match="out of memory"):
            get_backend()


def test_listing_shows_facts_and_what_a_refused_plugin_would_have() -> None:
    with world_of() as world:
        world.plugin(
            "gpu",
            DEVICES.replace(
                'name="devices", api="1.0"', 'name="gpu", api="1.0", requires=("ren_no_such_module",), extra="gpu"'
            )
            .replace('"low"', '"gpu"')
            .replace('"mid"', '"gpu2"')
            .replace('"absent"', '"gpu3"')
            .replace('"driverless"', '"gpu4"')
            .replace('"odd-probe"', '"gpu5"')
            .replace('"liar"', '"gpu6"')
            .replace('"thing"', '"gpu7"'),
        )
        with world.active():
            listed = {r.name: r for r in backends()}
            assert listed["mid"].default and listed["mid"].facts.device_works
            assert listed["absent"].facts == DeviceFacts(True, True, False, False, "no device was found", "Plug one in")
            assert not listed["driverless"].facts.device_present
            assert not listed["gpu"].facts.installed and "ren_no_such_module" in listed["gpu"].facts.reason
            assert [r.name for r in backends() if r.default] == ["mid"]
            with pytest.raises(
                BackendUnavailableError, match=r'needs ren_no_such_module.*pip install "ren-test-gpu\[gpu\]"'
            ):
                get_backend("gpu")


def test_listing_survives_an_environment_that_names_nothing() -> None:
    with world_of() as world, world.active():
        world.setenv(REN_BACKEND="tpu")
        assert not any(r.default for r in backends())


def test_facts_are_consistent() -> None:
    with pytest.raises(ValueError, match="later fact"):
        DeviceFacts(False, True, False, False, "x")
    with pytest.raises(ValueError, match="reason"):
        DeviceFacts(True, True, True, False)


@pytest.mark.parametrize(
    ("kind", "name", "home"),
    [
        (Kind.BACKEND, "cpu", "ren_backend_cpu"),
        (Kind.BACKEND, "cuda", "ren_backend_cuda[cuda]"),
        (Kind.FRONTEND, "torch", "ren_frontend_torch[torch]"),
        (Kind.PASS, "eliminate-dead-values", "ren_passes"),
    ],
)
def test_name_of_an_absent_plugin_of_ours_says_what_to_install(kind: Kind, name: str, home: str) -> None:
    with PluginTester() as world, pytest.raises(MissingPluginError) as error:
        world.manager.lookup(kind, name)
    assert f'pip install -e "./{home}"' in str(error.value)


def test_no_plugins_at_all_leaves_the_reference_backend() -> None:
    with PluginTester() as world, world.active():
        assert default_device() == "reference"
        assert facts("reference").device_works


@pytest.mark.parametrize(
    ("cupy", "facts_wanted", "words"),
    [
        (None, (False, False, False, False), "CuPy is not installed"),
        (
            "raise ImportError('libcuda.so.1: cannot open shared object file')",
            (True, False, False, False),
            "libcuda.so.1",
        ),
        ("raise RuntimeError('driver too old')", (True, False, False, False), "driver too old"),
        (
            "class runtime:\n    @staticmethod\n    def getDeviceCount(): raise RuntimeError('cudaErrorNoDevice')\nclass cuda:\n    runtime = runtime\nRawModule = None\n",
            (True, True, False, False),
            "cudaErrorNoDevice",
        ),
        (
            "class runtime:\n    @staticmethod\n    def getDeviceCount(): return 0\nclass cuda:\n    runtime = runtime\nRawModule = None\n",
            (True, True, False, False),
            "no device",
        ),
    ],
)
def test_cuda_plugin_on_a_machine_without_a_gpu(
    cupy: str | None, facts_wanted: tuple[bool, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("ren_backend_cuda.nvrtc.find", lambda major=None: "libnvrtc.so.13")
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with PluginTester() as world:
        if cupy is None:

            def without_cupy(name: str, *rest: Any) -> Any:
                return None if name == "cupy" else find_spec(name, *rest)

            monkeypatch.setattr(importlib.util, "find_spec", without_cupy)
        else:
            world.module("cupy", cupy)
        world.entry("cuda", "ren_backend_cuda.plugin", "ren-backend-cuda")
        with world.active():
            assert world.record("cuda").state == "loaded" and world.warnings == []
            found = facts("cuda")
            assert (found.installed, found.importable, found.device_present, found.device_works) == facts_wanted
            with pytest.raises(BackendUnavailableError) as error:
                get_backend("cuda")
            assert words in str(error.value) and found.fix in str(error.value)
            assert get_backend().name == "reference"
