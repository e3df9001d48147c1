"""The examples about programs and passes run; the how-to page shows the files of the example distribution as they are."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOY = ("--preset", "python-test", "--device", "reference")


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, name, *TOY, *arguments],
        cwd=DOCS / "examples",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_textual_ir() -> None:
    text = run("textual_ir.py")
    assert '"app.limit"(%gain)' in text
    assert re.search(r"^empty +False +app\.limit", text, re.MULTILINE)
    assert re.search(r"^bound +True", text, re.MULTILINE)


def test_custom_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "graph.svg"
    text = run("custom_pipeline.py", "--draw", str(path))
    assert re.search(r"^recognize-squares +3 +1 +1 +1 +0", text, re.MULTILINE)
    assert ET.parse(path).getroot().tag.endswith("svg")


def test_the_page_shows_the_files() -> None:
    page = (DOCS / "how-to" / "write-a-pass.md").read_text()
    blocks = re.findall(r"```(?:python|toml)\n# ([\w/.\-]+)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    for name, code in blocks:
        assert code.strip() == (DOCS / "examples" / "ren-pass-example" / name).read_text().strip(), name


def test_first_snippet_of_the_page() -> None:
    page = (DOCS / "how-to" / "write-a-pass.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, "write-a-pass.md", "exec"), space)
    assert "recognize-squares" in space["pipeline"].names  # type: ignore[attr-defined]


def test_links() -> None:
    page = DOCS / "how-to" / "write-a-pass.md"
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []
