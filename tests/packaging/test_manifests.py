"""Six manifests say the same thing where they must, and nothing points at somebody else's package."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ren.plugin.info import GROUP
from ren.version import VERSION

ROOT = Path(__file__).parents[2]
MEMBERS = ("ren_core", "ren_backend_cpu", "ren_backend_cuda", "ren_frontend_torch", "ren_passes")


def manifest(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


BUNDLE = manifest(".")
MANIFESTS = {m: manifest(m) for m in MEMBERS}


def third_party(dependencies: list[str]) -> set[str]:
    return {d for d in dependencies if not d.startswith("ren-core")}


@pytest.mark.parametrize("member", MEMBERS)
def test_member_agrees_with_the_bundle(member: str) -> None:
    project, bundle = MANIFESTS[member]["project"], BUNDLE["project"]
    assert project["version"] == bundle["version"] == VERSION
    assert project["requires-python"] == bundle["requires-python"]
    assert project["license"] == bundle["license"] == "Apache-2.0"
    assert (ROOT / member / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert project["name"] == member.replace("_", "-")
    assert [c for c in bundle["classifiers"] if c != "Private :: Do Not Upload"] == project["classifiers"]
    if member != "ren_core":
        assert "ren-core>=0.1,<0.2" in project["dependencies"]
    package = "ren" if member == "ren_core" else member
    assert MANIFESTS[member]["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"src/{package}"]
    assert (ROOT / member / "src" / package / "py.typed").is_file()


def test_bundle_is_the_union_of_its_members() -> None:
    project = BUNDLE["project"]
    entries = {k: v for m in MANIFESTS.values() for k, v in m["project"].get("entry-points", {}).get(GROUP, {}).items()}
    assert project["entry-points"][GROUP] == entries
    assert project["scripts"] == MANIFESTS["ren_core"]["project"]["scripts"]
    # Without an extra the bundle is everything whose requirements are light; torch and CuPy are extras.
    assert set(project["dependencies"]) == set().union(
        *(third_party(m["project"]["dependencies"]) for m in MANIFESTS.values())
    )
    extras = {k: v for m in MANIFESTS.values() for k, v in m["project"].get("optional-dependencies", {}).items()}
    assert {k: project["optional-dependencies"][k] for k in extras} == extras
    hatch = BUNDLE["tool"]["hatch"]["build"]
    assert hatch["dev-mode-dirs"] == [f"{m}/src" for m in MEMBERS]
    assert hatch["targets"]["wheel"]["packages"] == [f"{m}/src/{'ren' if m == 'ren_core' else m}" for m in MEMBERS]
    assert "Private :: Do Not Upload" in project["classifiers"]


def test_constraints_admit_what_the_manifests_ask_for() -> None:
    from packaging.requirements import Requirement

    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    project = BUNDLE["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["test"],
        *project["optional-dependencies"]["torch"],
    ]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def tracked() -> list[Path]:
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in done.stdout.splitlines()]


def test_nobody_is_told_to_install_ren_from_an_index() -> None:
    """The name `ren` on the public index is somebody else's; hints name an extra of a clone."""
    wrong = re.compile(r"pip install (?:-U |--upgrade )?[\"']?ren(?![\w/-])(?:\[|\b)")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path.is_file() and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if wrong.search(line)
    ]
    assert found == []
