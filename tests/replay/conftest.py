"""Replay tests run on the reference and on the CPU backend, or on the one that REN_BACKEND names; the document's snippets on the
default device."""

import os

import pytest
from ren.backend.select import facts
from ren.errors import BackendUnavailableError

ASKED = os.environ.get("REN_BACKEND")
DEVICES = [ASKED] if ASKED else ["reference", "cpu"]


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition(".")[2] != "test_document":
        metafunc.fixturenames.append("replay_device")
        metafunc.parametrize("replay_device", DEVICES)


@pytest.fixture(autouse=True)
def _device(request, monkeypatch):
    device = getattr(request.node, "callspec", None) and request.node.callspec.params.get("replay_device")
    if device is None:
        return
    try:
        known = facts(device)
    except BackendUnavailableError as error:
        pytest.skip(str(error))
    if not known.device_works:
        pytest.skip(known.reason)
    monkeypatch.setenv("REN_BACKEND", device)
