"""The reference pages say what the tables say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ren_docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted(generator().PAGES))
def test_page_is_up_to_date(page: str) -> None:
    assert (DOCS / "reference" / page).read_text() == generator().PAGES[page](), "run: python docs/generate.py"


def test_every_error_says_when_it_is_raised() -> None:
    from ren import errors

    silent = [
        n for n, c in vars(errors).items() if isinstance(c, type) and c.__module__ == errors.__name__ and not c.__doc__
    ]
    assert silent == []


def test_how_to_shows_the_example_plugin_as_it_is() -> None:
    text = (DOCS / "how-to" / "write-a-backend-plugin.md").read_text()
    example = DOCS.parent / "tests" / "plugins" / "external_plugin"
    blocks = re.findall(r"```\w+\n# (\S+)\n(.*?)```\n", text, re.DOTALL)
    assert {name for name, _ in blocks} == {
        "pyproject.toml",
        "src/ren_counting/plugin.py",
        "src/ren_counting/backend.py",
        "tests/test_conformance.py",
    }
    for name, code in blocks:
        assert code == (example / name).read_text(), name
