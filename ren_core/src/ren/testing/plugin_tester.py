"""A private world of plugins for tests: nothing that is installed leaks in, nothing of it leaks out.

    with PluginTester() as world:
        world.plugin("mine", "from ren.plugin import PluginInfo\\nPLUGIN = PluginInfo(name='mine', api='1.0')")
        assert world.record("mine").state == "loaded"

Entry points and modules live in memory, so no distribution has to be built; installed modules can be used as well
(`world.entry("mine", "my_package.plugin")`).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from types import ModuleType

from ren.errors import PluginWarning
from ren.plugin.info import GROUP
from ren.plugin.manager import PluginManager, use_manager
from ren.plugin.report import PluginRecord


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from texts, exactly as from files: compile errors and exceptions come out of the import."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in self.texts else None

    def get_source(self, fullname: str) -> str:
        return self.texts[fullname]

    def is_package(self, fullname: str) -> bool:
        return any(name.startswith(fullname + ".") for name in self.texts)


class PluginTester:
    """Plugins of a test. A context manager; everything is undone at its end.

    environment: the only REN_* variables that exist inside.
    """

    def __init__(self, **environment: str) -> None:
        unknown = [name for name in environment if not name.startswith("REN_")]
        if unknown:
            raise ValueError(f"PluginTester sets REN_* variables only, got {', '.join(unknown)}")
        self._environment = environment
        self._saved: dict[str, str] = {}
        self._sources = _Sources()
        self._entries: list[tuple[EntryPoint, str, str]] = []
        self._manager: PluginManager | None = None
        #: Texts of the PluginWarnings that loading gave.
        self.warnings: list[str] = []

    def __enter__(self) -> PluginTester:
        self._saved = {k: v for k, v in os.environ.items() if k.startswith("REN_")}
        self.setenv(**self._environment)
        sys.meta_path.insert(0, self._sources)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.meta_path.remove(self._sources)
        for name in self._sources.texts:
            sys.modules.pop(name, None)
        self._clear_environment()
        os.environ.update(self._saved)

    def setenv(self, **environment: str) -> None:
        """Make these the only REN_* variables."""
        self._clear_environment()
        os.environ.update(environment)

    @staticmethod
    def _clear_environment() -> None:
        for name in [k for k in os.environ if k.startswith("REN_")]:
            del os.environ[name]

    # -- what is installed -------------------------------------------------------------------------------------------

    def module(self, name: str, text: str) -> None:
        """Make `import name` run `text`. Parents of a dotted name are made as well."""
        parent = name.rpartition(".")[0]
        if parent and parent not in self._sources.texts:
            self.module(parent, "")
        self._sources.texts[name] = text

    def entry(self, name: str, value: str, distribution: str | None = None, version: str = "1.0") -> None:
        """Install an entry point called `name` with the given value, such as "package.plugin"."""
        if self._manager is not None:
            raise RuntimeError("The plugins of this PluginTester were loaded already; call reload() first")
        self._entries.append((EntryPoint(name, value, GROUP), distribution or f"ren-test-{name}", version))

    def plugin(self, name: str, text: str, distribution: str | None = None, version: str = "1.0") -> None:
        """Install a plugin whose module is `text`."""
        module = f"ren_tester_{(distribution or name).replace('-', '_')}_{name.replace('-', '_')}"
        self.module(module, text)
        self.entry(name, module, distribution, version)

    # -- what became of it -------------------------------------------------------------------------------------------

    @property
    def manager(self) -> PluginManager:
        """The loaded manager (loaded now, if it was not). Its warnings go to `self.warnings`."""
        if self._manager is None:
            manager = PluginManager(lambda: list(self._entries))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                manager.records()
            self.warnings = [str(w.message) for w in caught if issubclass(w.category, PluginWarning)]
            self._manager = manager
        return self._manager

    def reload(self, *, reverse: bool = False) -> PluginManager:
        """Load again from nothing; `reverse` gives the entry points in the opposite install order."""
        self._manager = None
        for name in self._sources.texts:
            sys.modules.pop(name, None)
        if reverse:
            self._entries.reverse()
        return self.manager

    def records(self) -> tuple[PluginRecord, ...]:
        return self.manager.records()

    def record(self, name: str) -> PluginRecord:
        """The only plugin called `name`. Raises LookupError if there is none, or more than one."""
        found = [r for r in self.records() if r.name == name]
        if len(found) != 1:
            raise LookupError(
                f"{len(found)} plugins are called {name!r}: {', '.join(r.value for r in found) or 'none'}"
            )
        return found[0]

    @contextmanager
    def active(self) -> Iterator[PluginManager]:
        """Inside, all of Ren uses these plugins: `Poly(..., device="mine")`, `get_backend("mine")`."""
        with use_manager(self.manager) as manager:
            yield manager


def heavy_imports(module: str) -> tuple[str, ...]:
    """Third-party packages that importing the plugin module `module` pulls in, in a fresh process, beside its own and Ren's own needs.

    A plugin module should give (): it registers factories, and the work is imported when it is first used. Raises
    ImportError if the module does not import.
    """
    program = (
        "import sys, importlib\n"
        "import ren.plugin\n"
        "before = set(sys.modules)\n"
        f"importlib.import_module({module!r})\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        f"print(' '.join(sorted(new - set(sys.stdlib_module_names) - {{{module.partition('.')[0]!r}, 'ren', '__editable__'}})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImportError(f"{module} does not import: {done.stderr.strip().splitlines()[-1]}")
    return tuple(done.stdout.split())
