"""Compiled programs in files: a record (`ren.schemes.ckks.serialize`) of kind "program-plan".

Facts: entry, version of Ren, device, parameters in full, names with shapes and element types of the materials, and for each plan how many units and bytes it has and a digest of its
schedule. One block: the program as text. There is nothing else, so there is nothing in a file that could carry a secret or run: what is loaded is the text, parsed under the limits
of `Program.parse`, and every plan is derived from it anew (40 ms for an example of 80 operations), by the same scheduler whose bounds and operands no file can touch. A plan that comes out with another digest than the
file says, on the same device and version, is refused: then the file was altered.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import PureWindowsPath
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc

from ren.engine.captured import CapturedPlan
from ren.engine.explain import Lowered
from ren.engine.plan import Plan
from ren.errors import FormatError, ParametersMismatchError, ProgramInputError
from ren.program.compiled_program import CompiledProgram
from ren.program.dialect import location
from ren.program.order import walk
from ren.program.packing import to_array
from ren.program.program import Program
from ren.schemes.ckks.engine import PublicEngine
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.serialize import Record, read_file, write_file, write_record
from ren.version import VERSION

KIND = "program-plan"
#: Bytes of a file: text of Ren's own limit, and facts.
MAX_BYTES = 1 << 28
_MAX_PLANS, _MAX_NAMES = 4096, 100_000


@dataclass(frozen=True)
class PlanFacts:
    """What a file says of one plan: for what kind of call it is, and enough to tell whether the same one is derived again."""

    kind: str
    units: int
    arena_bytes: int
    digest: str


@dataclass(frozen=True)
class Recorded:
    """What a loaded plan is compared with: the parameters, and the plans that were captured when it was saved."""

    params: CKKSParams
    device: str
    version: str
    materials: tuple[tuple[str, str], ...]
    plans: tuple[PlanFacts, ...]

    def check_engine(self, engine: Any) -> None:
        """Raise ParametersMismatchError, saying what differs, for an engine of other parameters. What is no engine is for readiness to report."""
        if isinstance(engine, PublicEngine) and engine.params != self.params:
            found = "; ".join(
                f"{f.name} {_shown(getattr(self.params, f.name))} in the file, {_shown(getattr(engine.params, f.name))} in the engine"
                for f in fields(CKKSParams)
                if f.name != "name" and getattr(self.params, f.name) != getattr(engine.params, f.name)
            )
            raise ParametersMismatchError(
                f"the plan was made for other parameters than workspace['engine'] has: {found}",
                subject="parameters",
                hint="Use an engine with the parameters of the file, or compile the program with this engine",
            )

    def check_materials(self, space: Mapping[Any, Any]) -> None:
        """Raise ProgramInputError for a bound material whose shape is not the one that it had when the plan was saved. A resolver may make anything of them."""
        bound = space.get("materials")
        if not isinstance(bound, Mapping) or space.get("material_resolver") is not None:
            return
        for name, described in self.materials:
            wanted, found = _shape_in(described), _shape_in(_described(bound[name])) if name in bound else None
            if name in bound and wanted is not None and found != wanted:
                raise ProgramInputError(
                    f"material {name!r} had shape {wanted} when the plan was saved, workspace['materials'] has {_described(bound[name])}",
                    subject=name,
                    hint="Bind material of that shape, or compile the program with this one",
                )

    def check_plan(self, plan: CapturedPlan) -> None:
        """Raise FormatError when this plan is not the one that the file lists for its kind of call. Other releases and devices may schedule otherwise."""
        found = facts_of(Lowered(plan.name, plan))
        same = self.version == VERSION and all(s.plan.backend.name == self.device for s in plan.segments)
        for known in self.plans if same else ():
            if known.kind == found.kind and known != found:
                raise FormatError(
                    f"the program gives a plan of {found.units} units and {found.arena_bytes} bytes for {found.kind}, the file says {known.units} units and "
                    f"{known.arena_bytes} bytes, digest {known.digest}: the file was altered",
                    subject="plans",
                    hint="Compile the program again and save it",
                )


def _shown(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else repr(value)


def facts_of(lowered: Lowered) -> PlanFacts:
    """What a file says of a plan."""
    digest = hashlib.sha256()
    for plan in lowered.plans:
        digest.update(_text(plan).encode())
    arenas = sum(8 * plan.arena_words for plan in lowered.plans)
    return PlanFacts(lowered.name, sum(map(len, lowered.units)), arenas, digest.hexdigest())


def _text(plan: Plan) -> str:
    """Everything that a plan does, as text that is the same in every process."""
    lines = [f"{slot.kind} {slot.words}" for slot in plan.slots]
    for unit in plan.units:
        places = [(o.slot, o.offset, o.words) for o in unit.operands]
        lines.append(f"{unit.kernel} {unit.ring.n} {unit.ring.moduli} {unit.params!r} {places}")
    layout = plan.layout
    lines.append(f"{layout.scalars} {layout.randoms} {layout.leaves} {layout.outputs}")
    return "\n".join([*lines, *(f"{r.slot} {r.offset} {r.words}" for r in plan.roots)])


# -- writing ---------------------------------------------------------------------------------------------------------


def save_plan(
    path: str | os.PathLike[str], program: Program, entry: str, space: Mapping[Any, Any], plans: Sequence[Lowered]
) -> None:
    """Write a compiled program. Raises FormatError without an engine."""
    engine: PublicEngine | None = space.get("engine")
    if not isinstance(engine, PublicEngine):
        raise FormatError(
            "a plan is saved for the parameters of an engine",
            subject="engine",
            hint="Bind workspace['engine'], or save the program",
        )
    materials = space.get("materials") or {}
    names = sorted(program.requirements(entry=entry).materials)
    facts = {
        "entry": entry,
        "version": VERSION,
        "device": engine.device,
        "params": engine.params.to_bytes().hex(),
        "materials": [[name, _described(materials.get(name))] for name in names],
        "plans": [[f.kind, f.units, f.arena_bytes, f.digest] for f in map(facts_of, plans)],
    }
    text = _without_folders(program).to_text(include_locations=True).encode()
    write_file(path, write_record(KIND, facts=facts, blocks=[text], fingerprint=engine.params.fingerprint))


def _without_folders(program: Program) -> Program:
    """A copy whose source locations name files only: where they lie on this machine, and under whose name, is no part of a plan."""
    copy = Program.parse(program.to_text(include_locations=True))
    for op in walk(copy.module):
        source = op.location
        if isinstance(source, FileLineColLoc):
            name = PureWindowsPath(source.filename.data).name  # splits at both kinds of slashes
            op.location = location(name, source.line.data, source.column.data)
    return copy


def _described(value: Any) -> str:
    """Shape and element type of a material: never its content."""
    try:
        array = to_array(value)
    except (TypeError, ValueError):
        return type(value).__name__
    return f"{array.dtype}{list(array.shape)}"


def _shape_in(described: str) -> str | None:
    """The shape in what `_described` gave, as text; None for what is no array."""
    start = described.find("[")
    return described[start:] if start > 0 and described.endswith("]") else None


# -- reading ---------------------------------------------------------------------------------------------------------


def load_plan(path: str | os.PathLike[str]) -> CompiledProgram:
    """Read what `CompiledProgram.save` wrote: a compiled program without a workspace, run as `plan.run(*args, workspace=workspace)`.

    Evaluates and imports nothing. Raises FormatError and its subclasses (ValueErrors) for a file that is damaged, too large or no plan, ProgramParseError for program
    text that is not accepted, OSError. A run raises ParametersMismatchError, saying what differs, for an engine with other parameters.
    """
    record = read_file(path, kind=KIND, max_bytes=MAX_BYTES)
    if len(record.blocks) != 1:
        raise FormatError(f"{KIND}: one block is expected, {len(record.blocks)} found", subject="blocks")
    try:
        text = bytes(record.blocks[0]).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{KIND}: the program is not UTF-8 text", subject="program") from error
    recorded = _recorded(record)
    entry = record.fact("entry", str)
    program = Program.parse(text, source_name=os.fspath(path))
    program.entry_block(entry)
    names = sorted(program.requirements(entry=entry).materials)
    if [name for name, _ in recorded.materials] != names:
        raise FormatError(f"{KIND}: the materials listed are not those of the program", subject="materials")
    return CompiledProgram(program, None, entry=entry, recorded=recorded)


def _recorded(record: Record) -> Recorded:
    try:
        stored = bytes.fromhex(record.fact("params", str))
    except ValueError as error:
        raise FormatError(f"{KIND}: the parameters are not hexadecimal", subject="params") from error
    params = CKKSParams.from_bytes(stored)
    if params.fingerprint != record.fingerprint:
        raise FormatError(f"{KIND}: the parameters are not those of the header", subject="params")
    plans = tuple(PlanFacts(*row) for row in _rows(record, "plans", (str, int, int, str), _MAX_PLANS))
    materials = tuple((row[0], row[1]) for row in _rows(record, "materials", (str, str), _MAX_NAMES))
    return Recorded(params, record.fact("device", str), record.fact("version", str), materials, plans)


def _rows(record: Record, name: str, kinds: tuple[type, ...], most: int) -> list[list[Any]]:
    """A list of rows whose fields have these types."""
    rows: list[list[Any]] = record.fact(name, list)
    if len(rows) > most:
        raise FormatError(f"{KIND}: {len(rows)} {name}, at most {most} are read", subject=name)
    for row in rows:
        if not isinstance(row, list) or [type(v) for v in row] != list(kinds):
            raise FormatError(f"{KIND}: a row of {name!r} is malformed", subject=name)
    return rows
