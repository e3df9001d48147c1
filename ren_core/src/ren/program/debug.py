"""Running a program operation by operation beside its clear computation, with the secret key: where an error comes from.

Each result is decrypted and compared twice: with the clear computation from the inputs on, and with the clear operation on its own decrypted operands. The second
difference is what the operation itself adds, so a fault is found where it happens, however small against errors that came before, and is not
found again in everything that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ren.errors import DecryptionError, ProgramRunError
from ren.program import _xdsl, entry
from ren.program._xdsl import operation_name
from ren.program.binding import bind_names, bind_roles, encrypt_online
from ren.program.cleartext import ClearCase, framed
from ren.program.debug_reference import DOUBLE, compare, expected_results, largest, one
from ren.program.debug_report import DebugReport, DebugRow, Finding
from ren.program.dialect import row_of, source_of
from ren.program.flow import Flow
from ren.program.interpret import batched, call, check_call, public_value, quiet_bounds, require
from ren.program.layout import Layout, Padding
from ren.program.machine import Machine, Many
from ren.program.noise_rules import NoiseCase, UnknownNoise
from ren.program.packing import logical_vector
from ren.program.program import Program
from ren.program.readiness import ReadinessReport, check_readiness
from ren.program.results import with_promise
from ren.program.states import EncryptedState, PlaintextState
from ren.program.types import EncryptedType, PlaintextType
from ren.program.workspace import as_workspace

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine
    from ren.schemes.ckks.keys import SecretKey
    from ren.schemes.ckks.noise import Noise

Array = NDArray[Any]
#: Of a given ciphertext, relative to its values: padding below it is noise.
_PADDING = 2.0**-16


def debug(
    program: Program,
    *args: Any,
    workspace: MutableMapping[Any, Any] | None = None,
    secret_key: SecretKey | None = None,
    reference: Any = None,
    entry: str = "main",
    **kwargs: Any,
) -> DebugReport:
    """See `Program.debug`."""
    space = as_workspace(workspace)
    report = check_readiness(program, space, entry=entry)
    require(_judged_here(report), entry)
    engine: PublicEngine = Machine(space, space.get("engine"), {}).engine
    block, signature = program.entry_block(entry), program.signature(entry)
    given = bind_names(signature, entry, args, kwargs)
    bound = bind_roles(block, list(given), engine)
    report = check_call(program, entry, space, _judged_here(report), block, bound, of_interest=_judged_here)
    assert report.flow is not None
    walk = Walk(engine, secret_key, Machine(space, engine, report.flow.types), report.flow)
    # Every faulty argument is named; nothing is computed from one.
    readable = [walk.argument(a, bound.values[i], i in bound.to_encrypt) for i, a in enumerate(block.args)]
    with quiet_bounds(block):
        returned = walk.block(block) if all(readable) else None
    outputs = None
    if returned is not None:
        results = with_promise(tuple(walk.values[v] for v in returned), walk.machine)
        outputs = _structured(signature, tuple(map(public_value, results)))
        if reference is not None and not walk.findings:
            expected = expected_results(reference, signature, walk, block, given, args, kwargs)
            compare(walk, returned, expected, signature)
    return DebugReport(tuple(walk.rows), tuple(walk.findings), outputs, tuple(walk.notes))


def _judged_here(report: ReadinessReport) -> ReadinessReport:
    """The report without results that may have overflown: whether they did is what debugging finds out."""
    kept = tuple(d for d in report.diagnostics if d.code != "unchecked-result")
    return ReadinessReport(report.requirements, kept, report.flow)


def _structured(signature: entry.Signature, results: tuple[Any, ...]) -> Any:
    if signature.has_output_structure:
        return entry.rebuild(signature.output, results)
    return None if not results else results[0] if len(results) == 1 else results


@dataclass(slots=True)
class _Seen:
    """A value beside its execution. clear: from the inputs on; found: decrypted or decoded. noise: predicted from measured magnitudes."""

    clear: Any
    found: Any
    noise: Noise | None = None


class Walk:
    def __init__(self, engine: PublicEngine, secret: SecretKey | None, machine: Machine, flow: Flow) -> None:
        self.engine = engine
        self.secret = secret
        self.machine = machine
        self.flow = flow
        self.values: dict[SSAValue, Any] = {}
        self.seen: dict[SSAValue, _Seen] = {}
        self.rows: list[DebugRow] = []
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self._suspect = False

    # -- arguments -------------------------------------------------------------------------------------------------------

    def argument(self, argument: SSAValue, value: Any, is_array: bool) -> bool:
        """Take an argument; False, and a finding, for a ciphertext that does not decrypt."""
        name = argument.name_hint or "argument"
        label = f"argument {name}"
        type_ = self.flow.types[argument]
        state = type_.data if isinstance(type_, (EncryptedType, PlaintextType)) else None
        if state is None:
            self.values[argument] = value
            self.seen[argument] = _Seen(value, value)
            return True
        clear = None
        if is_array:
            assert isinstance(argument.type, EncryptedType)
            clear = self._logical(value, argument.type.data)
            value = encrypt_online(name, value, argument.type.data, self.engine, self.machine.workspace["public_key"])
        self.values[argument] = value = batched(value)
        try:
            found = self._read(value)
        except DecryptionError as error:
            self.find("overflow", label, str(error), None)
            return False
        noise = self.flow.noises.get(argument)
        if clear is None:
            clear, noise = self._taken_for_right(found, state)
        self.seen[argument] = _Seen(clear, found, noise)
        # A ciphertext carries the error of its encryption: a value at its bound may decrypt to a little more.
        fresh = self.flow.noises.get(argument)
        slack = 0.0 if is_array or fresh is None else fresh.bound(self.engine.num_slots)
        self._record(label, None, argument, state, _Judged(found, clear, noise, None, True, slack=slack))
        return True

    def _logical(self, value: Any, state: EncryptedState) -> Array:
        layout = Layout() if state.layout is None else state.layout
        batch, rows, frame = logical_vector(value, layout, self.engine.num_slots)
        return framed(np.array(rows).reshape((*batch, -1)), frame, self.engine.num_slots)

    def _taken_for_right(self, found: Array, state: Any) -> tuple[Array, Noise]:
        """A given ciphertext means what it holds; padding claimed zero means zero, where what it holds is small enough for noise."""
        layout = self._zero_padded(state)
        if layout is None:
            return found, _none()
        clear = found.copy()
        padding = clear.reshape((*clear.shape[:-1], -1, layout.frame))[..., layout.elements :]
        worst = largest(padding)
        if worst > _PADDING * max(1.0, largest(found)):
            return found, _none()
        padding[...] = 0
        return clear, _systematic(worst)

    # -- operations ------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> tuple[SSAValue, ...] | None:
        """Walk the operations; the returned values, None when one failed."""
        for op in _xdsl.block_ops(block):
            operands = _xdsl.operands(op)
            if isinstance(op, ReturnOp):
                return tuple(operands)
            try:
                results = call(op, tuple(self.values[v] for v in operands), self.machine)
            except ProgramRunError as error:
                self.find("failed", operation_name(op), str(error), op)
                return None
            for value, result in zip(op.results, results, strict=True):
                self.values[value] = result
            if not self._look_at(op, operands):
                return None
        return ()

    def _look_at(self, op: Operation, operands: Sequence[SSAValue]) -> bool:
        name, row = operation_name(op), row_of(op)
        states = [getattr(self.flow.types.get(r, r.type), "data", None) for r in op.results]
        if not any(isinstance(s, (EncryptedState, PlaintextState)) for s in states):
            for value in op.results:
                self.seen[value] = _Seen(self.values[value], self.values[value])
            return True
        try:
            found = [self._read(self.values[v]) for v in op.results]
        except DecryptionError as error:
            self.find("overflow", name, str(error), op)
            return False
        rule = None if row is None else row.clear
        seen = [self.seen[v] for v in operands]
        attributes = {} if row is None else row.python_attributes(op.properties)
        case = ClearCase(
            self.engine.num_slots,
            tuple(s if isinstance(s, EncryptedState) else None for s in self.states(operands)),
            (self._scale(operands), self._scale(op.results)),
        )
        clear, local = found, found
        if rule is not None:
            clear = _several(rule(attributes, tuple(s.clear for s in seen), case))
            local = _several(rule(attributes, tuple(s.found for s in seen), case))
        noise, own = self._noises(op, attributes, seen, clear[0])
        for value, state, got, want, alone in zip(op.results, states, found, clear, local, strict=True):
            self.seen[value] = _Seen(want, got, noise)
            operand_size = float(np.prod([max(1.0, largest(s.found)) for s in seen if isinstance(s.found, np.ndarray)]))
            allowed = None if own is None else own.bound(case.slots) + DOUBLE * max(operand_size, largest(alone))
            judged = _Judged(got, want, noise, allowed, rule is not None, alone)
            self._record(name, op, value, state, judged)
        return True

    def states(self, values: Sequence[SSAValue]) -> list[Any]:
        return [getattr(self.flow.types.get(v, v.type), "data", None) for v in values]

    def _scale(self, values: Sequence[SSAValue]) -> Any:
        return getattr(one(self.values[values[0]]), "scale", None) if values else None

    def _noises(
        self, op: Operation, attributes: Mapping[str, Any], seen: Sequence[_Seen], clear: Any
    ) -> tuple[Noise | None, Noise | None]:
        """(predicted error of the result, of the operation alone), from the magnitudes that values really have."""
        row = row_of(op)
        if row is None or row.noise is None:
            return None, None
        operands = _xdsl.operands(op)
        states = [
            replace(s, bound=max(1e-300, largest(v.clear))) if isinstance(s, (EncryptedState, PlaintextState)) else s
            for s, v in zip(self.states(operands), seen, strict=True)
        ]
        result = self.states(op.results)[0]
        if isinstance(result, (EncryptedState, PlaintextState)):
            result = replace(result, bound=largest(clear))
        same = len(operands) == 2 and operands[0] is operands[1]

        def predicted(noises: Sequence[Noise | None]) -> Noise | None:
            assert row is not None and row.noise is not None
            try:
                return row.noise(NoiseCase(tuple(noises), states, result, attributes, self.engine.params, same))
            except UnknownNoise:
                return None

        encoded = [isinstance(s, (EncryptedState, PlaintextState)) for s in states]
        return predicted([v.noise for v in seen]), predicted([_none() if e else None for e in encoded])

    # -- judging ---------------------------------------------------------------------------------------------------------

    def _record(self, name: str, op: Operation | None, value: SSAValue, state: Any, judged: _Judged) -> None:
        slots = self.engine.num_slots
        error, added = largest(judged.found - judged.clear), largest(judged.found - judged.alone)
        magnitude = largest(judged.clear)
        predicted = None
        if judged.noise is not None:
            predicted = judged.noise.bound(slots) + DOUBLE * max(1.0, magnitude)
        source = None if op is None else source_of(op)
        file, line = source if source is not None else (None, None)
        actual = one(self.values[value])
        self.rows.append(
            DebugRow(
                name,
                value.name_hint or "",
                file,
                line,
                getattr(actual, "level", None),
                magnitude,
                error,
                predicted,
                added,
                judged.allowed,
                judged.checked,
            )
        )
        before = len(self.findings)
        self._check_state(name, op, state, actual)
        outside = self._chebyshev_excess(op)
        if outside is not None:
            # The cause, and the only finding: the error of a series is bounded on [-1, 1] alone.
            self.find("bound", name, f"a Chebyshev series is meant for [-1, 1], its argument reaches {outside:.6g}", op)
        elif judged.allowed is not None and not added <= judged.allowed:
            self.find("added-error", name, f"it adds {added:.3g}, {judged.allowed:.3g} is allowed", op)
        declared = (
            state.bound
            if isinstance(state, EncryptedState) and (op is None or name == "ren.ckks.assume_bound")
            else None
        )
        if declared is not None and magnitude > declared + (predicted or 0.0) + judged.slack:
            self.find("bound", name, f"a value of {magnitude:.6g} exceeds the declared bound {declared:.6g}", op)
        self._check_padding(name, op, state, judged.found, predicted)
        if len(self.findings) == before and not self._suspect and predicted is not None and not error <= predicted:
            self.find("error", name, f"the error is {error:.3g}, {predicted:.3g} was predicted", op)
        self._suspect = self._suspect or bool(self.findings)

    def _chebyshev_excess(self, op: Operation | None) -> float | None:
        """The largest argument of a Chebyshev series, if it is outside of [-1, 1]."""
        if op is None or getattr(op.properties.get("basis"), "data", None) != "chebyshev":
            return None
        size = largest(self.seen[_xdsl.operands(op)[0]].clear)
        return size if size > 1 + 2.0**-20 else None

    def _check_state(self, name: str, op: Operation | None, state: Any, actual: Any) -> None:
        from ren.program.chain import number_of

        wrong = []
        if state.level is not None and getattr(actual, "level", state.level) != state.level:
            wrong.append(f"level {actual.level} instead of {state.level}")
        scale = None if state.scale is None else number_of(state.scale, self.engine.params)
        if scale is not None and getattr(actual, "scale", scale) != scale:
            wrong.append(f"scale {actual.scale:.6e} instead of {scale:.6e}")
        if isinstance(state, EncryptedState):
            parts = 3 if hasattr(actual, "c") else 2
            if state.parts is not None and parts != state.parts:
                wrong.append(f"{parts} parts instead of {state.parts}")
            frame = None if state.layout is None else state.layout.resolve(self.engine.num_slots).frame
            if frame is not None and getattr(actual, "slots", frame) != frame:
                wrong.append(f"{actual.slots} slots instead of {frame}")
        if wrong:
            self.find("state", name, ", ".join(wrong), op)

    def _check_padding(
        self, name: str, op: Operation | None, state: Any, found: Array, predicted: float | None
    ) -> None:
        layout = self._zero_padded(state)
        if layout is None or predicted is None:
            return
        frames = found.reshape((*found.shape[:-1], -1, layout.frame))
        worst = largest(frames[..., layout.elements :])
        if worst > predicted:
            self.find("padding", name, f"its padding holds up to {worst:.3g}, zeros are claimed", op)

    def _zero_padded(self, state: Any) -> Layout | None:
        layout = state.layout if isinstance(state, EncryptedState) else None
        return None if layout is None or layout.padding is not Padding.ZERO else layout.resolve(self.engine.num_slots)

    def find(self, code: str, name: str, message: str, op: Operation | None) -> None:
        source = None if op is None else source_of(op)
        file, line = source if source is not None else (None, None)
        self.findings.append(Finding(code, name, message, file, line))

    # -- reading values --------------------------------------------------------------------------------------------------

    def _read(self, value: Any) -> Any:
        """All slots of an encrypted or encoded value; public data as it is. Raises DecryptionError."""
        if type(value) is Many:
            rows = [self._read(item) for item in value.items]
            return np.array(rows).reshape((*value.shape, -1))
        from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
        from ren.schemes.ckks.plaintext import Plaintext

        slots = self.engine.num_slots
        if isinstance(value, (Ciphertext, CiphertextProduct)):
            # Neither a proof is asked for here nor a promise judged: a value that wrapped around differs from the clear one that it is compared with.
            bound = self.engine.bounds.limit(value.level, value.scale)
            plain = self.engine.decrypt(replace(value, slots=slots, bound=bound, occupied=None), self.secret)
            return self.engine.decode(plain, is_real=False)
        if isinstance(value, Plaintext):
            whole = value if value.poly is None else replace(value, slots=slots, occupied=None)
            return np.asarray(self.engine.decode(whole, is_real=False))
        return value


@dataclass(frozen=True, slots=True)
class _Judged:
    found: Any
    clear: Any
    noise: Noise | None
    allowed: float | None
    checked: bool
    local: Any = None
    #: By how much a value may exceed its declared bound.
    slack: float = 0.0

    @property
    def alone(self) -> Any:
        """The clear operation on the decrypted operands."""
        return self.found if self.local is None else self.local


def _none() -> Noise:
    return _systematic(0.0)


def _systematic(error: float) -> Noise:
    from ren.schemes.ckks import noise

    return noise.systematic(error)


def _several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]
