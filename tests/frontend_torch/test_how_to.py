"""The how-to page on tracing runs, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trace-pytorch-functions.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.real
def test_snippets() -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 3
    for code, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(PAGE), "exec"), namespace)
        assert "".join(out.getvalue().split()) == "".join(expected.split())


def test_links() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert targets
    assert [t for t in targets if not (PAGE.parent / t).exists()] == []
