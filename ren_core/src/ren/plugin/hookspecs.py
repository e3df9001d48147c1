"""The hooks a plugin may implement: the reference manual of the plugin API.

A plugin module marks its functions with `@hookimpl` and takes any subset of the arguments. No hook is ever called
per kernel or per ExecUnit. Hooks only gain optional arguments within a major version of the API (`ren.plugin.API_VERSION`).

Registration hooks are called once for each manager, when the first name of any kind is looked up or plugins are listed, in the
order of this file, each plugin on its own. They register *factories*, which are called at first use, and must be quick and import nothing
heavy. If one of them raises, everything the plugin registered is withdrawn and the plugin is listed as `broken`.

Observer hooks are called in the order of plugin names. Their results are ignored. What they raise never reaches the run: it is
reported once as a warning and kept in `ren.plugins()`; with REN_STRICT_PLUGINS=1 it is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ren.plugin.registry import Registrar

PROJECT = "ren"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# -- registration ----------------------------------------------------------------------------------------------------


@hookspec
def ren_register_backends(registry: Registrar) -> None:
    """Register devices with `registry.add_backend(name, factory, priority=, probe=, summary=)`.

    The factory makes a `ren.backend.protocol.Backend`, once per process; its `name` is the registered name. Since API 1.0.
    """


@hookspec
def ren_register_frontends(registry: Registrar) -> None:
    """Register ways to make a Program with `registry.add_frontend(name, factory, array_adapter=, summary=)`.

    Since API 1.0.
    """


@hookspec
def ren_register_dialects(registry: Registrar) -> None:
    """Register IR dialects with `registry.add_dialect(name, factory, summary=)`; the factory makes an xDSL Dialect.

    Since API 1.0.
    """


@hookspec
def ren_register_passes(registry: Registrar) -> None:
    """Register passes with `registry.add_pass(name, factory, stage=, after=, before=, default=, summary=)`.

    The factory makes the pass with its default settings. Since API 1.0.
    """


@hookspec
def ren_register_handlers(registry: Registrar) -> None:
    """Register how extension operations execute with `registry.add_handler(operation, factory, summary=)`.

    Since API 1.0.
    """


# -- observers -------------------------------------------------------------------------------------------------------


@hookspec
def ren_before_run(program: Any, workspace: Any) -> None:
    """Called once before a Program runs or is replayed, after readiness was checked. Since API 1.0."""


@hookspec
def ren_after_run(report: Any) -> None:
    """Called once after a Program ran. Since API 1.0."""


@hookspec
def ren_on_run_error(error: BaseException, report: Any) -> None:
    """Called once when a run failed, before the error reaches the caller; it cannot be replaced or swallowed. Since API 1.0."""


@hookspec
def ren_after_plan_captured(plan: Any) -> None:
    """Called once for each plan that `ren.jit` or `program.compile` captured, before its first run. Since API 1.0."""


REGISTRATION_HOOKS = (
    "ren_register_backends",
    "ren_register_frontends",
    "ren_register_dialects",
    "ren_register_passes",
    "ren_register_handlers",
)
OBSERVER_HOOKS = ("ren_before_run", "ren_after_run", "ren_on_run_error", "ren_after_plan_captured")
