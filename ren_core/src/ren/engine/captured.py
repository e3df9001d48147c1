"""Capturing one call of a function, and the captured plan that replays it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ren.backend.buffer import Buffer
from ren.engine import capture, checked
from ren.engine.deferred import Deferred, Recipes
from ren.engine.donation import give_up, take_over
from ren.engine.frozen import frozen
from ren.engine.jit_options import JitOptions
from ren.engine.plan import Plan, place_steps
from ren.engine.plan_cache import PLANS
from ren.engine.prune import split
from ren.engine.rebuild import Template, handles_inside, rebuild
from ren.engine.run import backend_of
from ren.engine.schedule import Static, normalise, schedule
from ren.engine.schedule.normalise import leaf_signature
from ren.engine.tree import Flat, handle
from ren.engine.where import noted
from ren.graph import Node, next_serial, postorder
from ren.numtheory.sampling import fresh_seed
from ren.ops import Kind, Op
from ren.plugin.manager import manager
from ren.poly import Poly

if TYPE_CHECKING:
    from ren.engine.jit import Binder

NO_OUTPUT = "ren.jit: function must return at least one Poly"
KEPT = "ren.jit: the result holds a Poly inside a {holder}, which replays could not renew. Return it in a list, tuple, dict or dataclass."
HIDDEN = "ren.jit: the function uses a Poly it was not given and does not name ({poly}): replays would keep today's value. Pass it as an argument."


@dataclass(slots=True)
class Segment:
    """The part of a captured function that runs on one device.

    buffers: constants by leaf number, None where a call binds an argument. given, implicit: (leaf, handle number) of those.
    scalars: residues, as captured where they depend on the call. dynamic: (leaf, place) of those in the values of the call's recipes.
    seeds: None: fresh at each run. donated: (leaf, handle number) of arguments that the plan may overwrite.
    """

    plan: Plan
    buffers: list[Buffer | None]
    given: list[tuple[int, int]]
    implicit: list[tuple[int, int]]
    scalars: list[tuple[int, ...]]
    dynamic: list[tuple[int, int]]
    seeds: list[bytes | None]
    donated: list[tuple[int, int]]

    def run(
        self, flat: Flat | Given, implicit: Flat | Given, values: Sequence[Any], watch: checked.Watch | None
    ) -> list[Buffer]:
        """The buffers of this segment's roots for one call. values: of the call's recipes."""
        buffers: list[Any] = self.buffers.copy()
        for leaf, at in self.given:
            buffers[leaf] = flat.handles[at]._node.realized
        for leaf, at in self.implicit:
            buffers[leaf] = implicit.handles[at]._node.realized
        for leaf, at in self.donated:
            buffers[leaf] = take_over(flat.handles[at])
        scalars = self.scalars
        if self.dynamic:
            scalars = scalars.copy()
            for leaf, place in self.dynamic:
                scalars[leaf] = values[place]
        seeds: Sequence[Any] = self.seeds
        if seeds:
            seeds = [fresh_seed() if seed is None else seed for seed in seeds]
        return self.plan.run(buffers, scalars, seeds, watch)


class Given:
    """The handles and run-time scalars of a call, where they are known without reading its arguments again."""

    __slots__ = ("handles", "numbers", "scalars")

    def __init__(self, handles: list[Any], numbers: list[Any]) -> None:
        self.handles = handles
        self.numbers = numbers
        self.scalars: list[Any] = []


#: No implicit inputs.
NOTHING = Given([], [])


class CapturedPlan:
    """What `ren.jit` keeps for one key. Holds no buffer of any call; constants (keys, literals) are its own."""

    def __init__(self, flat: Flat | Given, options: JitOptions, name: str) -> None:
        self.name = name
        self.shown_scalars = repr(tuple(flat.scalars))  # as they are now: they may change
        self.frozen_scalars = frozen(flat.scalars)
        self.segments: list[Segment] = []
        self._constants_dynamic = options.constants == "dynamic"
        self.recipes = Recipes(len(self.numbers(flat)))
        # The switches as they are now: reading them costs more than a small replay.
        self._watch = checked.watcher(options.validate)
        self._donated: list[int] = []
        self._template: Template | None = None
        self._sources: list[Callable[..., Any]] = []

    def finish(self, template: Template, sources: list[Callable[..., Any]], donated: list[int]) -> None:
        """The captured result: its structure, and where each handle in it comes from. donated: numbers of argument handles."""
        template.handles.clear()
        self._donated = donated
        self._template = template
        self._sources = sources

    def numbers(self, flat: Flat | Given) -> Sequence[Any]:
        """The run-time scalars of a call: numbers, then the residues of constant Polys."""
        return [*flat.numbers, *constant_inputs(flat)] if self._constants_dynamic else flat.numbers

    def replay(self, flat: Flat | Given, implicit: Flat | Given, values: Sequence[Any] | None = None) -> Any:
        """Run the plan on the arguments of a call; a new result object with fresh buffers. values: of the recipes, where the caller has them."""
        assert self._template is not None
        if values is None:
            values = self.recipes.run(self.numbers(flat))  # first: what it raises, it raises before anything ran
        try:
            taken = [segment.run(flat, implicit, values, self._watch) for segment in self.segments]
            handles = [source(flat, implicit, values, taken) for source in self._sources]
        finally:
            if self._donated:
                for at in self._donated:
                    give_up(flat.handles[at])
        return self._template.build(handles, values)


def constant_inputs(flat: Flat | Given) -> list[tuple[int, ...]]:
    """Residues of the constant Polys among the arguments, in order."""
    return [h._node.params for h in flat.handles if h._node.op is Op.CONST]


# -- capture -----------------------------------------------------------------------------------------------------------


def capture_plan(
    fn: Callable[..., Any],
    binder: Binder,
    values: Sequence[Any],
    flat: Flat,
    implicit: Flat,
    options: JitOptions,
    name: str,
) -> CapturedPlan:
    """Call `fn` once on stand-ins for its arguments and record what it describes.

    Raises RuntimeError for what a plan cannot hold. Nothing of the call is kept, the arguments' memory included.
    """
    first = next_serial()
    stand_ins = _stand_ins(flat, options)
    arguments = _arguments(binder, values, flat, stand_ins, options)
    with capture.capturing(capture.Capture(name, options.random == "fresh", options.nested == "inline")):
        result = binder.call(fn, arguments)
    plan = CapturedPlan(flat, options, name)
    given = {id(h._node): i for i, h in enumerate(stand_ins)}
    around = {id(h._node): i for i, h in enumerate(implicit.handles)}
    return assemble(
        plan, result, first, given, around, options, lambda returned: _donated(binder, values, flat, options) - returned
    )


def assemble(
    plan: CapturedPlan,
    result: Any,
    first: int,
    given: dict[int, int],
    around: dict[int, int],
    options: JitOptions,
    donated: Callable[[set[int]], set[int]] = lambda returned: set(),
) -> CapturedPlan:
    """Finish a plan with what was recorded: the graph under `result`, whose leaves are stand-ins, implicit inputs, or constants of the plan.

    first: creation number at the start of the capture. given, around: id of a leaf's node -> number of its handle at each replay. donated: numbers of
    the handles that the plan may overwrite, from the numbers of those that it returns.
    """
    name = plan.name
    template = Template(result, plan.recipes)
    if not template.handles:
        raise noted(RuntimeError(NO_OUTPUT), f"{name} returned {type(result).__name__}")
    _refuse_kept(template, first, given.keys(), name)
    nodes = [h._node for h in template.handles]
    _refuse_hidden(nodes, first, given.keys() | around.keys(), name)
    wanted: dict[str, list[Node]] = {}
    sources = [_source(h, given, around, wanted, plan.recipes) for h in template.handles]
    given_up = donated({given[id(n)] for n in nodes if id(n) in given})
    for device, roots in wanted.items():
        plan.segments.append(_segment(roots, device, given, around, given_up, plan.recipes, options))
    plan.finish(template, sources, sorted(given_up))
    manager().notify("ren_after_plan_captured", plan=plan)
    return plan


def _stand_ins(flat: Flat, options: JitOptions) -> list[Any]:
    """A new handle for each argument handle: a function that reaches the same Poly by a hidden way does not get the argument."""
    made = []
    position = len(flat.numbers)
    for h in flat.handles:
        node: Node = h._node
        recipe = None
        if node.op is Op.CONST and options.constants == "dynamic":
            recipe = Deferred.leaf(position, node.params, "a constant Poly")
            position += 1
        made.append(stand_in(h, recipe))
    return made


def stand_in(h: Any, recipe: Deferred | None = None) -> Any:
    """A handle on a leaf of its own with the same buffer, or the same residues. recipe: what a constant's residues follow from."""
    node: Node = h._node
    if node.op is Op.CONST:
        leaf = Node(Op.CONST, (), node.params, node.ring, node.domain, node.device, recipe=recipe)
    else:
        leaf = Node(
            Op.BUFFER,
            (),
            (),
            node.ring,
            node.domain,
            node.device,
            kind=node.kind,
            count=node.count,
            realized=node.realized,
        )
    return handle(type(h), leaf)


def _arguments(
    binder: Binder, values: Sequence[Any], flat: Flat, stand_ins: list[Any], options: JitOptions
) -> list[Any]:
    """The arguments around stand-ins and run-time scalars."""
    at = {id(h): s for h, s in zip(flat.handles, stand_ins, strict=True)}
    numbers = iter(
        [Deferred.leaf(i, v, name) for i, (v, name) in enumerate(zip(flat.numbers, flat.number_names, strict=True))]
    )
    return [rebuild(v, numbers, lambda h: at[id(h)], options.scalars == "dynamic") for v in values]


def _donated(binder: Binder, values: Sequence[Any], flat: Flat, options: JitOptions) -> set[int]:
    """Numbers of the handles in donated parameters. Constants have no memory to give."""
    if not options.donate:
        return set()
    inside = Flat()
    for name, value in zip(binder.names, values, strict=True):
        if name in options.donate:
            inside.add(value)
    at = {id(h): i for i, h in enumerate(flat.handles)}
    return {at[id(h)] for h in inside.handles if isinstance(h, Poly) and h._node.op is not Op.CONST}


def _refuse_hidden(nodes: Sequence[Node], first: int, known: Set[int], name: str) -> None:
    """Raise if the result depends on something older than the capture that is no input: its value would be frozen."""
    for node in postorder(nodes):
        if node.serial < first and id(node) not in known and not node.pinned and node.kind is not Kind.KEY:
            raise noted(
                RuntimeError(HIDDEN.format(poly=repr(node))),
                f"Known to {name} are its arguments, and closure variables, globals and attributes that its own code names; "
                "what a helper function names is hidden from it.",
            )


def _refuse_kept(template: Template, first: int, stand_ins: Set[int], name: str) -> None:
    """Raise if the result holds a Poly of this call in an object that every replay would share."""
    for holder in template.kept:
        for h in handles_inside([holder]):
            node: Node = h._node
            computed = node.realized is None and node.op is not Op.CONST
            if node.serial >= first and not node.pinned and (computed or id(node) in stand_ins):
                raise noted(
                    RuntimeError(KEPT.format(holder=type(holder).__name__)),
                    f"Results of {name} are rebuilt from lists, tuples, dicts and dataclasses only.",
                )
    template.kept.clear()


def _source(
    h: Any, given: dict[int, int], around: dict[int, int], wanted: dict[str, list[Node]], recipes: Recipes
) -> Callable[..., Any]:
    """Where one handle of the result comes from at each replay."""
    node: Node = h._node
    cls = type(h)
    at = given.get(id(node))
    if at is not None:
        return lambda flat, implicit, values, taken: flat.handles[at]
    near = around.get(id(node))
    if near is not None:
        return lambda flat, implicit, values, taken: implicit.handles[near]
    meta = (node.ring, node.domain, node.device)
    recipe = node.recipe
    if node.op is Op.CONST:
        if recipe is None:
            return lambda flat, implicit, values, taken: handle(cls, node)
        place = recipes.add(recipe)
        return lambda flat, implicit, values, taken: handle(cls, Node(Op.CONST, (), values[place], *meta))
    if node.realized is not None:  # made inside from plain numbers, or pinned
        return lambda flat, implicit, values, taken: handle(cls, node)
    roots = wanted.setdefault(node.device, [])
    segment = list(wanted).index(node.device)
    index = len(roots)
    roots.append(node)
    kind, count = node.kind, node.count
    (ring, domain, device), buffer, signature = meta, Op.BUFFER, leaf_signature(node)
    new: Any = object.__new__

    def fresh(flat: Flat, implicit: Flat, values: Sequence[Any], taken: list[list[Buffer]]) -> Any:
        leaf = Node(buffer, (), (), ring, domain, device, kind=kind, count=count, realized=taken[segment][index])
        leaf.signature = signature
        made = new(cls)
        made._node = leaf
        return made

    return fresh


def _segment(
    roots: list[Node],
    device: str,
    given: dict[int, int],
    around: dict[int, int],
    donated: Set[int],
    recipes: Recipes,
    options: JitOptions,
) -> Segment:
    normal = normalise(roots, lambda node: id(node) not in given and id(node) not in around)
    buffers: list[Buffer | None] = []
    bound: list[tuple[int, int]] = []
    near: list[tuple[int, int]] = []
    for leaf, (node, buffer) in enumerate(zip(normal.inputs, normal.buffers, strict=True)):
        if id(node) in given:
            bound.append((leaf, given[id(node)]))
            buffers.append(None)
        elif id(node) in around:
            near.append((leaf, around[id(node)]))
            buffers.append(None)
        else:
            buffers.append(buffer)
    scalars = [node.params for node in normal.scalars]
    dynamic = [(i, recipes.add(node.recipe)) for i, node in enumerate(normal.scalars) if node.recipe is not None]
    seeds = [node.seed for node in normal.randoms]
    overwritten = [(leaf, at) for leaf, at in bound if at in donated]
    bound = [(leaf, at) for leaf, at in bound if at not in donated]
    backend = backend_of(device)
    if not (options.prune or overwritten):
        plan = PLANS.plan(normal.key, backend)
    else:
        static = Static(
            frozenset(range(len(scalars))) - {i for i, _ in dynamic},
            frozenset(i for i, seed in enumerate(seeds) if seed is not None),
        )
        steps = schedule(normal.key, backend.capabilities().kernels, static if options.prune else None)
        parts = split(steps, len(buffers)) if options.prune else None
        if parts is not None:
            once, steps = parts
            buffers += place_steps(once, backend).run(buffers, scalars, seeds)  # type: ignore[arg-type]
        plan = place_steps(steps, backend, frozenset(leaf for leaf, _ in overwritten))
    return Segment(plan, buffers, bound, near, scalars, dynamic, seeds, overwritten)
