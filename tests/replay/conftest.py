"""Replay tests run on the reference backend unless REN_BACKEND names another; the document's snippets on the default device."""

import os

import pytest


@pytest.fixture(autouse=True)
def _device(request, monkeypatch):
    if request.module.__name__.rpartition(".")[2] != "test_document":
        monkeypatch.setenv("REN_BACKEND", os.environ.get("REN_BACKEND", "reference"))
