"""What `program.compile` and `jit.load_plan` give: a program, its entry and its plans as one callable object."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from ren.engine.explain import Lowered
from ren.engine.jit import CacheInfo
from ren.engine.jit_options import DEFAULT_MAXSIZE, JitOptions
from ren.errors import OptionError
from ren.program.compiled import Replayer
from ren.program.compiled_entry import Binding
from ren.program.program import Program
from ren.program.workspace import as_workspace

if TYPE_CHECKING:
    from ren.program.plan_file import Recorded


class CompiledProgram:
    """An entry of a program as a function: `compiled(*args)`, or `compiled.run(*args, workspace=...)`.

    The first call of a kind (levels, scales, packing and batch axes of the encrypted arguments) runs the handlers once and keeps the scheduled plan; later ones bind their
    arguments to it. Results are new objects every time, the same to the bit as an interpreted run gives. What is replaced in the workspace or edited in the module takes effect
    at the next call. At most `maxsize` plans are kept, least recently used dropped. Several threads may call at once.

    program, entry: what is run. workspace: what calls use by default; None for a loaded plan.
    """

    def __init__(
        self,
        program: Program,
        workspace: MutableMapping[Any, Any] | None,
        *,
        entry: str = "main",
        maxsize: int | None = DEFAULT_MAXSIZE,
        recorded: Recorded | None = None,
    ) -> None:
        JitOptions(maxsize=maxsize)  # checks it
        self.program = program
        self.entry = entry
        self.workspace = workspace
        self._replayer = Replayer(entry, maxsize)
        self._recorded = recorded
        if recorded is not None:
            self._replayer.on_capture = recorded.check_plan

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the entry on the arguments. Raises what `program.run` raises."""
        return self._replayer.run(self.program, self._space(self.workspace), args, kwargs)

    def run(self, *args: Any, workspace: MutableMapping[Any, Any] | None = None, **kwargs: Any) -> Any:
        """As a call, with another workspace where one is given."""
        space = self._space(self.workspace if workspace is None else workspace)
        return self._replayer.run(self.program, space, args, kwargs)

    def _space(self, workspace: MutableMapping[Any, Any] | None) -> MutableMapping[Any, Any]:
        space = as_workspace(workspace)
        if self._recorded is not None:
            self._recorded.check_engine(space.get("engine"))
            self._recorded.check_materials(space)
        return space

    def require_ready(self) -> None:
        """Raise ProgramNotReadyError, with the whole report, unless the entry runs with the workspace."""
        self._bound(None)

    # -- looking inside

    def cache_info(self) -> CacheInfo:
        """Calls replayed, calls captured, bound, and plans held."""
        plans = self._replayer.plans
        return CacheInfo(plans.hits, plans.misses, plans.maxsize, len(plans.plans))

    def clear(self) -> None:
        """Forget all plans and encodings; the next call captures."""
        self._replayer.clear()

    @property
    def plans(self) -> tuple[Lowered, ...]:
        """The plans as readable text: units, slots, bytes, predicted work."""
        return tuple(Lowered(plan.name, plan) for plan in self._replayer.plans.plans.values())

    def explain(self, workspace: MutableMapping[Any, Any] | None = None) -> str:
        """How calls run: replayed or interpreted, and why; what runs at every call; the plans; what the last call encoded. Raises ProgramNotReadyError."""
        binding = self._bound(workspace)
        part = binding.part
        if part.reason is not None:
            return f"interpreted: {part.reason}"
        lines = [f"replayed: {len(part.steps)} public operations, {len(part.wanted)} plaintexts bound to the plan"]
        if part.volatile:
            lines.append(
                "public operations run at every call: handlers from outside, or public results, are among them"
            )
        hits, misses, _, size = self.cache_info()
        lines.append(f"{hits} replays, {misses} captures, {size} plans")
        lines += [f"plan {i}: {_summary(plan)}" for i, plan in enumerate(self.plans)]
        lines.append(f"encoded at the last call: {', '.join(part.encoded) or 'nothing'}")
        return "\n".join(lines)

    def _bound(self, workspace: MutableMapping[Any, Any] | None) -> Binding:
        space = self._space(self.workspace if workspace is None else workspace)
        return self._replayer.entry(self.program).binding(self.program, space)

    def __repr__(self) -> str:
        hits, misses, _, size = self.cache_info()
        return f"<CompiledProgram {self.entry!r}: {size} plans, {hits} replays, {misses} captures>"

    # -- keeping it

    def save(self, path: str | os.PathLike[str], *, workspace: MutableMapping[Any, Any] | None = None) -> None:
        """Write the plan to a file that `jit.load_plan` reads: the program as text, the parameters it was checked with, and what its plans look like. No key, no data and no
        Python is in it. Raises ProgramNotReadyError when the workspace lacks something."""
        from ren.program.plan_file import save_plan

        space = self._space(self.workspace if workspace is None else workspace)
        self._bound(space)
        save_plan(path, self.program, self.entry, space, self.plans)

    def __reduce__(self) -> Any:
        raise OptionError(
            "a compiled program is not pickled: it holds keys and memory",
            subject="pickle",
            hint="compiled.save(path), then jit.load_plan(path) where it is needed",
        )


def _summary(lowered: Lowered) -> str:
    kept = {"input": 0, "constant": 0, "temporary": 0, "output": 0}
    for slots in lowered.slots:
        for slot in slots:
            if slot.kind in kept:
                kept[slot.kind] += 8 * slot.words
    sizes = ", ".join(f"{size} bytes of {kind}s" for kind, size in kept.items())
    return f"{lowered.name}: {sum(map(len, lowered.units))} units, {sizes}"
