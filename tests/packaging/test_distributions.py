"""The distributions as a user gets them: built, installed into empty folders, run in a process that sees nothing else of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CORE_NEEDS = ("numpy", "pluggy", "xdsl", "typing_extensions", "ordered-set", "immutabledict")
LIST = """
import contextlib, io
from ren.cli import main
def run(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(arguments)
    assert status == 0, out.getvalue()
    return out.getvalue()
"""


def build_wheel(project: Path, into: Path) -> Path:
    """The wheel of `project`, built from a copy (so that nothing is left in the source tree) with the hatchling that is installed."""
    copy = into / f"source-{project.name}"
    skip = shutil.ignore_patterns(
        "__pycache__", ".git", ".venv*", "dist", "build", ".*_cache", ".hypothesis", "*.egg-info", "tests", "docs"
    )
    shutil.copytree(project, copy, ignore=skip)
    out = into / "wheels"
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    before = set(out.glob("*.whl"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = set(out.glob("*.whl")) - before
    return wheel


def install(target: Path, *wheels: Path) -> None:
    """Install wheels, and nothing they depend on, into the folder `target`."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
        "--target",
        str(target),
        *map(str, wheels),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def link_dependencies(target: Path, names: Sequence[str]) -> None:
    """Make installed third-party distributions importable from `target` by links to their top-level files."""
    target.mkdir(exist_ok=True)
    for name in names:
        found = distribution(name)
        for top in {str(f).split("/", 1)[0] for f in found.files or () if not str(f).startswith("..")}:
            source = Path(str(found.locate_file(top)))
            if top != "__pycache__" and not (target / top).exists():
                (target / top).symlink_to(source)


def run_isolated(code: str, *path: Path, **environment: str) -> str:
    """Run `code` in a fresh process whose path is `path` and the standard library alone. Returns its standard output."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("REN_", "PYTHON", "COV_"))}
    prologue = f"import sys; sys.path[:0] = {[str(p) for p in path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prologue + code],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of ren-core alone."""
    folder = tmp_path_factory.mktemp("core")
    install(folder / "site", build_wheel(ROOT / "ren_core", folder))
    return folder / "site"


@pytest.fixture(scope="module")
def needs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("needs")
    link_dependencies(folder, CORE_NEEDS)
    return folder


def plugins(*path: Path, **environment: str) -> dict[str, dict[str, object]]:
    records = json.loads(run_isolated(LIST + "print(run('plugins', '--json'))", *path, **environment))
    return {r["name"]: r for r in records}


def test_core_alone_computes_on_the_reference_backend(core: Path, needs: Path) -> None:
    out = run_isolated(
        LIST
        + "import ren; print(ren.__file__)\nfrom ren.backend.select import get_backend\nprint(get_backend().name)\nprint(run('backends'))",
        core,
        needs,
    )
    assert str(core) in out.splitlines()[0] and out.splitlines()[1] == "reference"
    assert plugins(core, needs) == {}
    assert (core / "bin" / "ren").is_file()


def test_core_and_cpu_members(core: Path, needs: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, build_wheel(ROOT / "ren_backend_cpu", tmp_path))
    (record,) = plugins(core, needs, site).values()
    assert (record["name"], record["state"]) == ("cpu", "missing-dependency") and "numba" in str(record["reason"])
    link_dependencies(tmp_path / "numba", ("numba", "llvmlite"))
    (record,) = plugins(core, needs, site, tmp_path / "numba").values()
    assert (record["state"], record["distribution"], record["version"]) == ("loaded", "ren-backend-cpu", "0.1.0")
    assert record["names"] == ["backend cpu"]


@pytest.mark.parametrize("member", ["ren_backend_cuda", "ren_frontend_torch", "ren_passes"])
def test_each_other_member_beside_core(member: str, core: Path, needs: Path, tmp_path: Path) -> None:
    install(tmp_path / "site", build_wheel(ROOT / member, tmp_path))
    (record,) = plugins(core, needs, tmp_path / "site").values()
    assert record["distribution"] == member.replace("_", "-")
    wanted = "missing-dependency" if member == "ren_frontend_torch" else "loaded"
    assert record["state"] == wanted
    run_isolated(LIST + "print(run('backends', '--json'))", core, needs, tmp_path / "site")


def test_bundle_wheel_holds_all_five_packages_and_nothing_else(tmp_path: Path) -> None:
    wheel = build_wheel(ROOT, tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/", 1)[0] for n in names}
    assert tops == {
        "ren",
        "ren_backend_cpu",
        "ren_backend_cuda",
        "ren_frontend_torch",
        "ren_passes",
        "ren-0.1.0.dist-info",
    }
    assert {f"{t}/py.typed" for t in tops if "." not in t} <= set(names)
    assert any(n.endswith("licenses/LICENSE") for n in names)


def test_external_plugin(core: Path, needs: Path, tmp_path: Path) -> None:
    """The contract from outside: a third party's wheel beside ours, proven by the kit, gone without a trace when removed."""
    project = ROOT / "tests" / "plugins" / "external_plugin"
    site = tmp_path / "site"
    install(site, build_wheel(project, tmp_path))
    record = plugins(core, needs, site)["counting"]
    assert (record["state"], record["distribution"], record["version"]) == ("loaded", "ren-backend-counting", "0.3.0")
    assert record["names"] == ["backend counting"] and record["hooks"] == ["ren_register_backends", "ren_before_run"]

    link_dependencies(tmp_path / "tools", ("pytest", "pluggy", "iniconfig", "packaging", "pygments"))
    conformance = project / "tests" / "test_conformance.py"
    run_isolated(
        f"import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '--import-mode=importlib', '-c', '/dev/null', {str(conformance)!r}]))",
        core,
        needs,
        site,
        tmp_path / "tools",
    )
    out = run_isolated(
        "from ren.plugin.manager import manager\nfrom ren.backend.select import get_backend\nimport ren_counting.plugin as plugin\n"
        "manager().notify('ren_before_run', program='p', workspace='w')\nprint(plugin.seen, get_backend('counting').name, get_backend().name)",
        core,
        needs,
        site,
    )
    assert out == "['p'] counting reference\n"
    out = run_isolated(
        "from ren.backend.select import get_backend\ntry:\n    get_backend('counting')\nexcept RuntimeError as error:\n    print(type(error).__name__, error)",
        core,
        needs,
    )
    assert out.startswith("BackendUnavailableError Device 'counting' is not available")


def test_faulty_external_plugin_is_named_with_its_distribution(core: Path, needs: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "tests" / "plugins" / "external_plugin", project)
    plugin = project / "src" / "ren_counting" / "plugin.py"
    plugin.write_text(
        plugin.read_text()
        + "\n\n@hookimpl\ndef ren_register_handlers(registry):\n    registry.add_handler('a.b', 'm:x')\n    raise OSError('disk on fire')\n"
    )
    install(tmp_path / "site", build_wheel(project, tmp_path))
    record = plugins(core, needs, tmp_path / "site")["counting"]
    assert record["state"] == "broken" and "disk on fire" in str(record["reason"]) and record["names"] == []
    out = run_isolated(
        "import warnings\nwith warnings.catch_warnings(record=True) as caught:\n    warnings.simplefilter('always')\n"
        "    from ren.backend.select import get_backend\n    get_backend(); get_backend()\nprint(len(caught), caught[0].message)",
        core,
        needs,
        tmp_path / "site",
    )
    assert out.startswith(
        "1 Ren plugin 'counting' (ren-backend-counting 0.3.0) is broken: calling ren_register_handlers raised OSError: disk on fire"
    )
    assert "pip uninstall ren-backend-counting" in out
