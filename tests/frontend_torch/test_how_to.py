"""The how-to pages that need PyTorch run, and print what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
#: Page -> number of snippets.
PAGES = {"trace-pytorch-functions.md": 4, "debug-a-program.md": 1, "read-the-cost-of-a-program.md": 3}
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.real
@pytest.mark.parametrize("page", PAGES)
def test_snippets(page: str) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = BLOCK.findall((FOLDER / page).read_text())
    assert len(blocks) == PAGES[page]
    for code, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page, "exec"), namespace)
        if expected:
            assert "".join(out.getvalue().split()) == "".join(expected.split())


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (FOLDER / page).read_text())
    assert [t for t in targets if not (FOLDER / t).exists()] == []
