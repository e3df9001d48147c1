"""The object `ren.jit`: a decorator, and the namespace of Programs.

`@ren.jit` captures polynomial computations (`ren.engine.jit`); `ren.jit.trace`, `.parse`, `.run`, ... are the names of
`ren.program` and of the plugins that provide frontends and passes, found when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

from ren.errors import UnsupportedOperandError

if TYPE_CHECKING:
    from ren.engine.jit import JitFunction

#: Names that a frontend plugin provides: name -> registered frontend.
_FRONTEND_NAMES = {"trace": "torch", "CaptureResult": "torch"}
#: Pass classes whose plugin may be absent: name -> registered pass, so that the error can say which plugin it is.
_PASS_NAMES = {"SvgGraphVisualizationPass": "visualize-svg"}


class JitApi:
    """See `__call__` for the decorator. Attributes are resolved lazily; the name of an absent plugin raises MissingPluginError."""

    @overload
    def __call__(self, fn: Callable[..., Any]) -> JitFunction: ...

    @overload
    def __call__(self, fn: None = None, **options: Any) -> Callable[[Callable[..., Any]], JitFunction]: ...

    def __call__(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Capture `fn` at its first call and replay the plan at later ones: `@ren.jit`, `@ren.jit(prune=True)` or `ren.jit(f)`.

        Options (defaults first):

        * `prune=False`: with True, work that does not depend on the arguments runs once, at capture.
        * `nested="error" | "inline"`: a jitted function called inside another one raises, or becomes part of it.
        * `scalars="error" | "recapture" | "dynamic"`: another value of a non-Poly argument raises, gets a plan of its own, or
          (numbers) is an input of the plan; a use of it that steers Python still raises.
        * `constants="key" | "dynamic"`: constant Polys among the arguments are part of the plan key, or inputs of the plan.
        * `random="error" | "fresh"`: random Polys made inside raise, or are drawn anew at each call.
        * `donate=()`: names of parameters whose memory the plan may overwrite; those Polys raise when used afterwards.
        * `maxsize=16`: plans kept, least recently used dropped; None for no bound.
        * `validate=False`: with True, each call compares every unit with the reference backend.

        Besides the arguments, a plan depends on what the function's own code names: globals, closure variables, and attributes of
        `self`, of arguments and of other objects, classes and modules it names. A Poly among them is an input; numbers, strings,
        containers, dataclasses and arrays (up to 1 MiB) are compared by value at each call, functions and larger arrays by
        identity, other objects by identity and named attributes. A change captures again, except of what the function itself
        changes (a counter, a log). Not seen: state read inside helper functions, methods and properties, items of larger arrays,
        iterators and random generators that are named, files and other resources. Pass those as arguments.

        Results are new objects with fresh memory at each call. Raises RuntimeError with the documented texts for a call without a
        Poly argument, a changed scalar, `realize` or randomness inside, nesting, and a result without a Poly; UnsupportedOperandError for
        an argument whose changes cannot be seen (an iterator, a random generator) or that contains itself.
        """
        from ren.engine.jit import JitFunction
        from ren.engine.jit_options import JitOptions

        unknown = options.keys() - set(JitOptions.names())
        if unknown:
            raise TypeError(
                f"ren.jit has no option {', '.join(map(repr, sorted(unknown)))}; options: {', '.join(JitOptions.names())}"
            )
        chosen = JitOptions(**options)
        if fn is None:
            return lambda f: self._decorate(f, chosen)
        return self._decorate(fn, chosen) if not isinstance(fn, JitFunction) else self._decorate(fn.fn, chosen)

    @staticmethod
    def _decorate(fn: Callable[..., Any], options: Any) -> JitFunction:
        from ren.engine.jit import JitFunction

        if not callable(fn):
            raise UnsupportedOperandError(f"ren.jit decorates a function, got {type(fn).__name__}", subject="fn")
        return JitFunction(fn, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        program = import_module("ren.program")
        if name in program.__all__:
            value = self.__dict__[name] = getattr(program, name)  # found directly from now on
            return value
        if name in _FRONTEND_NAMES:
            return getattr(_frontend(_FRONTEND_NAMES[name]), name)
        if name.endswith("Pass"):
            return _pass_class(name)
        raise AttributeError(f"ren.jit has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *import_module("ren.program").__all__, *_FRONTEND_NAMES, *_PASS_NAMES})

    def __repr__(self) -> str:
        return "<ren.jit: decorator, and namespace of Programs>"


def _frontend(name: str) -> Any:
    """The frontend object of a plugin. Raises MissingPluginError with what to install."""
    from ren.plugin.manager import manager
    from ren.plugin.registry import Kind

    host = manager()
    return host.registry.instance(host.lookup(Kind.FRONTEND, name))


def _pass_class(name: str) -> Any:
    """The class of a registered pass by its class name. Raises MissingPluginError, or AttributeError where nothing has that name."""
    from ren.plugin.manager import manager
    from ren.plugin.registry import Kind, resolve

    host = manager()
    for entry in host.registry.all(Kind.PASS):
        if isinstance(entry.factory, str) and entry.factory.rpartition(":")[2] == name:
            return resolve(entry.factory)
    if name in _PASS_NAMES:
        return resolve(host.lookup(Kind.PASS, _PASS_NAMES[name]).factory)
    raise AttributeError(f"ren.jit has no attribute {name!r}, and no loaded plugin registers such a pass")


jit = JitApi()
