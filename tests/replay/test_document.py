"""Every snippet of the document that ren.jit was ordered from, as it stands: run, output compared.

`overwritten_output` prints three times the value that the document calls correct (there the first one is a known defect).
"""

import contextlib
import io
from pathlib import Path

import pytest

SNIPPETS = sorted((Path(__file__).parent / "snippets").glob("*.py"))


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda p: p.stem)
def test_snippet(path: Path) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": path.stem})
    assert printed.getvalue() == path.with_suffix(".out").read_text()
