"""Every snippet of the document that ren.jit was ordered from, as it stands: run, output compared.

Of `timing_example`, which prints times, the form is compared. `overwritten_output` prints three times the value that the document calls correct (there the first one is a known defect).
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

SNIPPETS = sorted((Path(__file__).parent / "snippets").glob("*.py"))


TIMED = "timing_example"


def run(path: Path) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": path.stem})
    return printed.getvalue()


@pytest.mark.parametrize("path", [p for p in SNIPPETS if p.stem != TIMED], ids=lambda p: p.stem)
def test_snippet(path: Path) -> None:
    assert run(path) == path.with_suffix(".out").read_text()


@pytest.mark.real
@pytest.mark.filterwarnings("ignore:possible-overflow")
def test_timing_example_at_the_default_parameters() -> None:
    (path,) = (p for p in SNIPPETS if p.stem == TIMED)
    assert re.fullmatch(path.with_suffix(".out").read_text(), run(path))
