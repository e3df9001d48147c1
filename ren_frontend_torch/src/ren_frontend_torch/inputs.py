"""The parameters of a function and the roles declared for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import torch
from ren.errors import InputSpecError, InputSpecTypeError, TraceError, UnsupportedOperandError
from ren.program import InputSpec
from ren.program.literals import LiteralError, encode

from ren_frontend_torch.emit import number

_P = inspect.Parameter
_POSITIONAL = (_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Inputs:
    """signature: of the callable. specs: parameter -> InputSpec, or nested tuples, lists and dicts of them. runtime: names of the parameters that the program
    keeps, in order. defaults: of these, as literals."""

    function: Callable[..., Any]
    signature: inspect.Signature
    specs: dict[str, Any]
    runtime: tuple[str, ...]
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        found = self.function
        while hasattr(found, "func"):
            found = found.func
        return getattr(found, "__name__", None) or type(found).__name__

    @property
    def keyword_only(self) -> tuple[str, ...]:
        kinds = {n: p.kind for n, p in self.signature.parameters.items()}
        return tuple(n for n in self.runtime if kinds.get(n, _P.KEYWORD_ONLY) is _P.KEYWORD_ONLY)

    @property
    def static_values(self) -> dict[str, Any]:
        """Name, or path in a container, -> the value that was fixed."""
        found: dict[str, Any] = {}
        for name, spec in self.specs.items():
            for path, leaf in leaves(spec, name):
                if leaf.role == "static":
                    found[path] = leaf.static_value
        return found

    def runtime_signature(self) -> inspect.Signature:
        """How the program is called: without what was fixed while tracing."""
        parameters = []
        for name in self.runtime:
            kind = _P.KEYWORD_ONLY if name in self.keyword_only else _P.POSITIONAL_OR_KEYWORD
            parameters.append(_P(name, kind, default=self.defaults.get(name, _P.empty)))
        # A parameter without a default cannot follow one with; the program takes it by keyword just as well.
        parameters.sort(key=lambda p: (p.kind, p.kind is _P.POSITIONAL_OR_KEYWORD and p.default is not _P.empty))
        return inspect.Signature(parameters)

    def call(self, values: Mapping[str, Any]) -> Any:
        """Call the function with one value per declared parameter, by position where it can be: hooks of modules see positional arguments only. The others
        keep their defaults."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        parameters = self.signature.parameters
        # What comes before a given *args has to be given by position, and so have its defaults.
        variadic = any(p.kind is _P.VAR_POSITIONAL and n in values for n, p in parameters.items())
        skipped = False
        for name, parameter in parameters.items():
            if parameter.kind is _P.VAR_KEYWORD:
                continue
            if parameter.kind is _P.VAR_POSITIONAL:
                args.extend(values.get(name, ()))
            elif parameter.kind is _P.POSITIONAL_ONLY or (variadic and parameter.kind is _P.POSITIONAL_OR_KEYWORD):
                args.append(values.get(name, parameter.default))
            elif name not in values:
                skipped = True
            elif parameter.kind is _P.POSITIONAL_OR_KEYWORD and not skipped:
                args.append(values[name])
            else:
                kwargs[name] = values[name]
        # A name that only **kwargs takes, be it the one that it has itself.
        kwargs.update(
            {n: v for n, v in values.items() if n not in parameters or parameters[n].kind is _P.VAR_KEYWORD}
        )
        return self.function(*args, **kwargs)


def declared(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Inputs:
    """Check roles against the signature. Raises UnsupportedOperandError for what is not callable, InputSpecError for missing and unknown names together, InputSpecTypeError for
    roles that are none, TraceError for compiled functions."""
    signature = _signature(function)
    if not isinstance(inputs, Mapping):
        raise InputSpecTypeError(
            f"inputs maps parameter names to roles, got {type(inputs).__name__}",
            subject="inputs",
            hint='inputs={"x": jit.encrypted()}',
        )
    parameters = signature.parameters
    takes_any = any(p.kind is _P.VAR_KEYWORD for p in parameters.values())
    named = [n for n, p in parameters.items() if p.kind is not _P.VAR_KEYWORD]
    missing = [
        n
        for n in named
        if n not in inputs and parameters[n].default is _P.empty and parameters[n].kind is not _P.VAR_POSITIONAL
    ]
    extra = [n for n in inputs if n not in named and not takes_any]
    if missing or extra:
        raise InputSpecError(
            f"roles do not fit the parameters ({', '.join(named) or 'none'}): missing={missing}, extra={extra}",
            subject=(missing or extra)[0],
            hint="Every parameter without a default needs encrypted(), message(), plaintext() or static(value)",
        )
    order = [n for n in named if n in inputs] + [n for n in inputs if n not in named]
    specs = {n: _checked(inputs[n], n) for n in order}
    for name in order:
        if (
            name in parameters
            and parameters[name].kind is _P.VAR_POSITIONAL
            and not isinstance(specs[name], (tuple, list))
        ):
            raise InputSpecError(f"*{name} takes a list of roles", subject=name)
    runtime = tuple(n for n in order if any(leaf.role != "static" for _, leaf in leaves(specs[n], n)))
    defaults = {}
    for name in runtime:
        found = parameters[name].default if name in parameters else _P.empty
        if (
            found is not _P.empty
            and isinstance(specs[name], InputSpec)
            and specs[name].role == "message"
            and _is_literal(found)
        ):
            defaults[name] = found
    return Inputs(function, signature, specs, runtime, defaults)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if not callable(function):
        raise UnsupportedOperandError(f"jit.trace takes a callable, got {type(function).__name__}", subject="function")
    compiled = isinstance(function, (torch.jit.ScriptFunction, torch.jit.ScriptModule)) or hasattr(
        function, "_torchdynamo_orig_callable"
    )
    if compiled or type(function).__name__ == "OptimizedModule":
        raise TraceError(
            f"{type(function).__name__} is compiled: its Python code cannot be followed",
            subject="function",
            hint="Pass the function or module that was compiled",
        )
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError) as error:
        raise TraceError(f"the parameters of {function!r} are unknown: {error}", hint="Wrap it in a function") from None


def _checked(spec: Any, path: str) -> Any:
    if isinstance(spec, InputSpec):
        return spec
    if type(spec) in (tuple, list) or is_namedtuple(spec):
        return _remade(spec, [_checked(s, f"{path}[{i}]") for i, s in enumerate(spec)])
    if type(spec) is dict:
        bad = next((k for k in spec if not isinstance(k, str)), None)
        if bad is not None:
            raise InputSpecTypeError(f"{path} has the key {bad!r}; keys of containers are str", subject=path)
        return {k: _checked(s, f"{path}[{k!r}]") for k, s in spec.items()}
    if isinstance(spec, (tuple, list, Mapping)) or is_dataclass(spec):
        raise InputSpecTypeError(
            f"{path} is a {type(spec).__name__}: what the function gets would be of another type",
            subject=path,
            hint="Containers of roles are tuples, named tuples, lists and dicts: build the object inside the function",
        )
    raise InputSpecTypeError(
        f"{path} is a {type(spec).__name__}, no role",
        subject=path,
        hint="Use encrypted(...), message(), plaintext() or static(value)",
    )


def is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _remade(container: Any, items: list[Any]) -> Any:
    return type(container)._make(items) if is_namedtuple(container) else type(container)(items)


def leaves(spec: Any, path: str) -> list[tuple[str, InputSpec]]:
    """(path, role) of every role in a container."""
    if isinstance(spec, InputSpec):
        return [(path, spec)]
    items = spec.items() if isinstance(spec, dict) else enumerate(spec)
    return [leaf for key, part in items for leaf in leaves(part, f"{path}[{key!r}]")]


def filled(spec: Any, path: str, make: Callable[[str, InputSpec], Any]) -> Any:
    """The container with make(path, role) in place of every role."""
    if isinstance(spec, InputSpec):
        return make(path, spec)
    if isinstance(spec, dict):
        return {k: filled(s, f"{path}[{k!r}]", make) for k, s in spec.items()}
    return _remade(spec, [filled(s, f"{path}[{i!r}]", make) for i, s in enumerate(spec)])


def plain(structure: Any) -> Any:
    """The structure with tuples in place of named ones, as a program holds it."""
    if isinstance(structure, dict):
        return {k: plain(v) for k, v in structure.items()}
    if isinstance(structure, tuple):
        return tuple(map(plain, structure))
    return [plain(v) for v in structure] if isinstance(structure, list) else structure


def _is_literal(value: Any) -> bool:
    if number(value) is None:
        return False
    try:
        encode(value)
    except LiteralError:
        return False
    return True
