"""ren.testing without pytest."""

import sys

import pytest
import ren.testing
from ren.errors import MissingPluginError


def test_the_kit_says_that_it_needs_pytest(monkeypatch):
    monkeypatch.delitem(sys.modules, "ren.testing.backend", raising=False)
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(MissingPluginError, match=r"BackendConformance needs pytest.*\.\[test\]"):
        _ = ren.testing.BackendConformance
    assert ren.testing.fixed_randomness is not None
