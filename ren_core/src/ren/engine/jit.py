"""`ren.jit`: capture a function's graph as a plan at the first call, replay it afterwards.

A captured plan names slots, never buffers: results are always fresh, an input may be an earlier output, and threads may replay one
plan at once. What a plan depends on is its key (see `ren.engine.tree`); everything else the function does happens once.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Any, NamedTuple

from ren.engine import capture
from ren.engine.captured import NOTHING, CapturedPlan, Given, capture_plan
from ren.engine.frozen import frozen
from ren.engine.implicit import ImplicitInputs
from ren.engine.jit_options import JitOptions
from ren.engine.plan_store import PlanKey, PlanStore
from ren.engine.recent import Pattern, Recent
from ren.engine.run import realize
from ren.engine.tree import Flat
from ren.engine.where import noted
from ren.errors import UnsupportedOperandError
from ren.ops import Op

NO_INPUT = "ren.jit: function must receive at least one Poly argument"
NESTED = "ren.jit: nested jit is not supported"
SCALAR_CHANGED = (
    "ren.jit: non-Poly scalar arg changed (captured {captured}, got {got!r}); jit freezes it at capture. "
    "Wrap varying scalars as Plaintext.const(...), or clear_jit() to re-capture."
)

_CONST = Op.CONST


class CacheInfo(NamedTuple):
    """Calls replayed, calls captured, bound on plans (None: none), plans held."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int


class Call(NamedTuple):
    """One call, looked at: values of the parameters, what was found in them and around them, and the plan key."""

    values: Sequence[Any]
    flat: Flat
    implicit: Flat
    key: PlanKey


class JitFunction:
    """A function whose polynomial computation is captured once and replayed.

    fn: the undecorated function. Made by `ren.jit`; see there for the options.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        options: JitOptions,
        *,
        store: PlanStore | None = None,
        binder: Binder | None = None,
        implicit: ImplicitInputs | None = None,
    ) -> None:
        self.fn = fn
        self.options = options
        self._store = PlanStore(options.maxsize, _name(fn)) if store is None else store
        self._binder = Binder(fn) if binder is None else binder
        self._implicit = ImplicitInputs(fn, _implicit_of) if implicit is None else implicit
        self._methods: dict[int, tuple[weakref.ref[Any], PlanStore]] = {}
        if store is None:
            functools.update_wrapper(self, fn)
            options.check_parameters(self._binder.names)

    # -- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outer = capture.current()
        if outer is not None:
            if outer.inline or self.options.nested == "inline":
                return self.fn(*args, **kwargs)
            raise noted(
                RuntimeError(NESTED),
                f'{outer.name} is being captured. Call {_name(self.fn)}.fn(...), or decorate with @ren.jit(nested="inline").',
            )
        recent = self._store.recent
        if recent is not None and recent.pattern is not None and not kwargs and self._binder.is_plain(args):
            given = recent.pattern.match(args)
            around = self._around(recent) if given is not None else None
            if given is not None and around is not None and self._store.repeated(recent):
                return recent.plan.replay(given, around)
        call = self._look_at(args, kwargs)
        plan = self._store.get(call.key)
        if plan is None:
            before = self._implicit.snapshot(call.flat.objects)
            plan = capture_plan(
                self.fn, self._binder, call.values, call.flat, call.implicit, self.options, _name(self.fn)
            )
            result = plan.replay(call.flat, call.implicit)
            self._store.put(self._key_after(call, before), plan)
            return result
        scalars = call.flat.scalars
        if scalars and self.options.scalars != "recapture" and frozen(scalars) != plan.frozen_scalars:
            raise noted(
                RuntimeError(SCALAR_CHANGED.format(captured=plan.shown_scalars, got=tuple(scalars))),
                f"The plan of {_name(self.fn)} holds the branch and the constants of the captured value. Other ways: "
                '@ren.jit(scalars="recapture") keeps one plan per value, scalars="dynamic" makes numbers inputs of the plan.',
            )
        if self._store.recent is None:
            self._store.remember(self._recent(call, plan))
        return plan.replay(call.flat, call.implicit)

    def _around(self, recent: Recent) -> Flat | Given | None:
        """The implicit inputs of a call, where they and the contexts are those of the recent one."""
        if capture.context_token() != recent.context:
            return None
        if self._implicit.nothing:
            return NOTHING
        implicit = Flat(freeze_numbers=True)
        self._implicit.collect(implicit)
        for h in implicit.handles:
            if h._node.realized is None and h._node.op is not _CONST:
                return None
        return implicit if implicit.specify() == recent.implicit else None

    def _recent(self, call: Call, plan: CapturedPlan) -> Recent:
        """A call that was looked up, as what the next one is compared with. Scalars and objects with attributes need the long way."""
        flat = call.flat
        simple = not flat.scalars and not flat.objects
        pattern = Pattern.of(call.values) if simple else None
        return Recent(plan, pattern, call.key.implicit, call.key.context)

    def _look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, paths: bool = False) -> Call:
        try:
            return self._read(self._binder.bind(args, kwargs), paths)
        except RecursionError as error:
            raise noted(
                UnsupportedOperandError(
                    "ren.jit: an argument, or something the function names, contains itself or is nested too deeply",
                    subject="argument",
                    hint="Pass the Polys in a list, tuple, dict or dataclass that does not hold itself",
                )
            ) from error

    def _read(self, values: Sequence[Any], paths: bool) -> Call:
        options = self.options
        flat = Flat(
            dynamic_scalars=options.scalars == "dynamic", dynamic_constants=options.constants == "dynamic", paths=paths
        )
        for name, value in zip(self._binder.names, values, strict=True):
            flat.parameter = name
            flat.add(value, name)
        if not flat.handles:
            raise noted(RuntimeError(NO_INPUT))
        implicit = Flat(freeze_numbers=True, paths=paths)
        self._implicit.collect(implicit, flat.objects)
        pending = [
            node
            for handle in (*flat.handles, *implicit.handles)
            if (node := handle._node).realized is None and node.op is not _CONST
        ]
        if pending:
            realize(pending)
        key = PlanKey(
            flat.specify(),
            implicit.specify(),
            capture.context_token(),
            frozen(flat.scalars) if options.scalars == "recapture" else None,
        )
        return Call(values, flat, implicit, key)

    def _key_after(self, call: Call, before: dict[str, list[Hashable]]) -> PlanKey:
        """The key of a plan just captured: without what the function itself changed meanwhile (a counter, a log)."""
        if not self._implicit.exclude_changed(before, call.flat.objects):
            return call.key
        implicit = Flat(freeze_numbers=True)
        self._implicit.collect(implicit, call.flat.objects)
        same = len(implicit.handles) == len(call.implicit.handles) and all(
            map(is_, implicit.handles, call.implicit.handles)
        )
        return call.key._replace(implicit=implicit.specify()) if same else call.key

    # -- methods

    def __get__(self, instance: Any, owner: type | None = None) -> JitFunction:
        """The method of one instance, with plans of its own."""
        if instance is None:
            return self
        found = self._methods.get(id(instance))
        if found is None or found[0]() is not instance:
            at, methods = id(instance), self._methods
            try:
                ref = weakref.ref(instance, lambda _: methods.pop(at, None))
            except TypeError as error:
                raise TypeError(
                    f"ren.jit keeps the plans of a method per instance, which needs weak references: add '__weakref__' to {type(instance).__name__}.__slots__"
                ) from error
            found = methods[at] = (ref, PlanStore(self.options.maxsize, _name(self.fn)))
        return JitFunction(
            types.MethodType(self.fn, instance),
            self.options,
            store=found[1],
            binder=self._binder.without_self(),
            implicit=self._implicit.bound_to(instance),
        )

    # -- looking inside

    @property
    def _plans(self) -> dict[PlanKey, CapturedPlan]:
        """The captured plans by key."""
        return self._store.plans

    def clear_jit(self) -> None:
        """Forget all plans; the next call captures."""
        self._store.clear()
        for _, store in list(self._methods.values()):
            store.clear()

    def cache_info(self) -> CacheInfo:
        """Replays, captures, bound and size."""
        store = self._store
        return CacheInfo(store.hits, store.misses, store.maxsize, len(store.plans))

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What a call with these arguments would do: "hit", or "miss" and the key field that differs from the nearest plan.

        Realizes the arguments, as the call would; captures nothing.
        """
        from ren.engine.explain import explain

        return explain(self, self._look_at(args, kwargs, paths=True))

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The plan that a call with these arguments runs, as readable text (`str()` of the result): units, slots, bytes, predicted
        cost. Captures it if there is none yet."""
        from ren.engine.explain import Lowered

        call = self._look_at(args, kwargs)
        plan = self._store.peek(call.key)
        if plan is None:
            self(*args, **kwargs)
            plan = self._store.peek(call.key)
            assert plan is not None
        return Lowered(_name(self.fn), plan)

    def __repr__(self) -> str:
        return f"<ren.jit {_name(self.fn)}: {len(self._store.plans)} plans>"


def _name(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


def _implicit_of(obj: Any) -> ImplicitInputs | None:
    """The implicit inputs of a jitted function that another one names (it may be inlined)."""
    return obj._implicit if isinstance(obj, JitFunction) else None


class Binder:
    """Arguments in signature order, defaults filled in: f(x, y=2), f(x, 2) and f(y=2, x=x) are the same call.

    names: one per value; variable positional and keyword arguments are one value each.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._signature = inspect.signature(fn)
        self._finish()

    def _finish(self) -> None:
        parameters = list(self._signature.parameters.values())
        self.names = tuple(p.name for p in parameters)
        self._kinds = tuple(p.kind for p in parameters)
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._plain = (
            len(parameters) if all(k is plain or k is inspect.Parameter.POSITIONAL_ONLY for k in self._kinds) else -1
        )
        self._method: Binder | None = None

    def without_self(self) -> Binder:
        """For a method: the same without the first parameter."""
        if self._method is None:
            method = Binder.__new__(Binder)
            parameters = list(self._signature.parameters.values())
            method._signature = self._signature.replace(parameters=parameters[1:])
            method._finish()
            self._method = method
        return self._method

    def is_plain(self, args: tuple[Any, ...]) -> bool:
        """Whether positional arguments are the values of the parameters as they are."""
        return len(args) == self._plain

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The value of each parameter. Raises TypeError as a call would."""
        if not kwargs and len(args) == self._plain:
            return args
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments[name] for name in self.names)

    def call(self, fn: Callable[..., Any], values: Sequence[Any]) -> Any:
        """fn with these values of its parameters."""
        if len(values) == self._plain:
            return fn(*values)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, kind, value in zip(self.names, self._kinds, values, strict=True):
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args.extend(value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                kwargs[name] = value
            else:
                args.append(value)
        return fn(*args, **kwargs)
