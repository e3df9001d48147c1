"""Predicted errors of every operation's result: the typical one and one that is not exceeded.

The typical error (RMS) depends on how large values typically are and on how errors meet again (x * x + x), so it is measured on a simulation: the program is
computed on random messages in double precision twice, once exactly and once with the noise that the scheme's model says each operation adds, in every slot. The
maximum follows from declared bounds (`ren.program.noise_rules`), and is no less than what a second simulation with inputs as large as their bounds implies, since the
rules take errors that meet again as independent: with probability 1 - 2^-40 no slot exceeds it, as long as no value exceeds its bound: the declared one, for
public data at hand the measured one, and else 1 (`Flow.presumed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.program import _xdsl
from ren.program.chain import number_of
from ren.program.dialect import row_of
from ren.program.flow import Flow
from ren.program.layout import FULL, Layout
from ren.program.machine import Machine
from ren.program.noise_rules import NoiseCase, UnknownNoise, fresh
from ren.program.packing import pack
from ren.program.public_sizes import compute_public, is_public
from ren.program.requirements import span_steps
from ren.program.types import EncryptedType, MessageType, PlaintextType
from ren.schemes.ckks.placeholders import PlanningEngine

if TYPE_CHECKING:
    from ren.schemes.ckks.noise import Noise
    from ren.schemes.ckks.params import CKKSParams

Slots = NDArray[np.complex128]

#: Draws are repeated until about this many slots were seen, within these limits.
_SLOTS_SEEN = 1 << 16
_FEWEST, _MOST = 8, 64
#: Larger programs are not simulated: their typical errors are those of the noise rules, for values as large as their bounds.
MAX_SIMULATED = 20_000


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """Errors of a slot in message units: rms over slots and runs, of the modulus; maximum: not exceeded by any slot, but for a chance of 2^-40.
    simulated: whether `rms` comes from the simulation; else from the noise rules, for values as large as their bounds."""

    rms: float
    maximum: float
    simulated: bool = True


@dataclass(frozen=True, slots=True)
class _Sample:
    """Slot values without and with noise, [draw, slot]."""

    exact: Slots
    noisy: Slots

    def map(self, f: Callable[[Slots], Slots]) -> _Sample:
        return _Sample(f(self.exact), f(self.noisy))


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Public data of which only the shape, if that, and a bound are known."""

    shape: tuple[int, ...] | None
    bound: float = 1.0


def estimate_errors(
    block: Block, flow: Flow, params: CKKSParams, workspace: Mapping[Any, Any], *, simulate: bool = True
) -> dict[SSAValue, ErrorEstimate]:
    """Of every encrypted value whose error can be predicted, arguments too. flow: with a bound for every value. Materials of the workspace are used where they are bound, random
    numbers up to their bounds in the place of public data that is not known, and as inputs."""
    few = len(block.ops) <= MAX_SIMULATED
    simulated = _Simulation(block, flow, params, workspace).run() if simulate and few else {}
    largest = _Simulation(block, flow, params, workspace, extreme=True).run() if simulated else {}
    found = {}
    for value, noise in flow.noises.items():
        if not isinstance(flow.types.get(value), EncryptedType):
            continue
        rms = simulated.get(value)
        maximum = noise.bound(params.slot_count)
        if rms is None:
            found[value] = ErrorEstimate(noise.rms, maximum, False)
        else:
            worst = max(rms, largest.get(value, 0.0))
            found[value] = ErrorEstimate(rms, max(maximum, _bound_of(worst, params)))
    return found


def _bound_of(rms: float, params: CKKSParams) -> float:
    """What a simulated error implies for the worst slot: errors that meet again can exceed what the rules, which take them as independent, say."""
    from ren.schemes.ckks.noise import Noise

    return Noise(direct=rms * rms).bound(params.slot_count)


class _Simulation:
    """extreme: inputs are as large as their bounds allow, where products amplify errors most."""

    def __init__(
        self, block: Block, flow: Flow, params: CKKSParams, workspace: Mapping[Any, Any], *, extreme: bool = False
    ) -> None:
        self.extreme = extreme
        self.block = block
        self.flow = flow
        self.params = params
        self.draws = min(max(_SLOTS_SEEN // params.slot_count, _FEWEST), _MOST)
        # Not secret, and the same at every call: a report must not change by itself.
        self.random = np.random.default_rng(1)
        # Public work asks an engine for its number of slots and no more.
        self.machine = Machine(dict(workspace), PlanningEngine(params, "reference"), flow.types)
        self.values: dict[SSAValue, Any] = {}

    def run(self) -> dict[SSAValue, float]:
        """RMS errors of all values that could be simulated."""
        rms: dict[SSAValue, float] = {}
        remaining: dict[SSAValue, int] = {}
        for op in _xdsl.block_ops(self.block):
            for v in _xdsl.operands(op):
                remaining[v] = remaining.get(v, 0) + 1
        for argument in self.block.args:
            value = self.values[argument] = self._argument(argument)
            if isinstance(value, _Sample) and isinstance(self.flow.types.get(argument), EncryptedType):
                rms[argument] = self._rms(value, argument)
        for op in _xdsl.block_ops(self.block):
            if isinstance(op, ReturnOp):
                break
            results = self._results(op)
            for result, value in zip(op.results, results, strict=True):
                self.values[result] = value
                if isinstance(value, _Sample) and isinstance(self.flow.types.get(result), EncryptedType):
                    rms[result] = self._rms(value, result)
            for v in _xdsl.operands(op):
                remaining[v] -= 1
                if not remaining[v]:
                    self.values.pop(v, None)
        return rms

    def _rms(self, value: _Sample, result: SSAValue) -> float:
        """As decoding sees it: copies of a frame are averaged."""
        frame = self._frame(result)
        error = (value.noisy - value.exact).reshape(self.draws, -1, frame).mean(axis=1)
        return float(np.sqrt(np.mean(np.abs(error) ** 2)))

    def _frame(self, value: SSAValue) -> int:
        layout = self._layout(value).resolve(self.params.slot_count)
        assert layout.frame is not None
        return layout.frame

    def _layout(self, value: SSAValue) -> Layout:
        data = getattr(self.flow.types.get(value, value.type), "data", None)
        layout = getattr(data, "layout", None)
        return layout if isinstance(layout, Layout) else FULL

    # -- values

    def _argument(self, argument: SSAValue) -> Any:
        type_ = self.flow.types.get(argument, argument.type)
        if isinstance(type_, EncryptedType):
            exact = self._packed(_Unknown(None, _bound(type_)), self._layout(argument))
            noise = None
            with suppress(UnknownNoise):
                noise = fresh(type_.data, self.params)
            return _Sample(exact, exact + self._noise(noise))
        if isinstance(type_, PlaintextType):
            exact = self._packed(_Unknown(None, _bound(type_)), self._layout(argument))
            return _Sample(exact, exact)
        return _Unknown(type_.data.shape, _bound(type_)) if isinstance(type_, MessageType) else _Unknown(None)

    def _noise(self, noise: Noise | None) -> Slots | float:
        if noise is None or not noise.variance:
            return 0.0
        shape = self.draws, self.params.slot_count
        drawn = self.random.standard_normal((2, *shape)) * math.sqrt(noise.variance / 2)
        return drawn[0] + 1j * drawn[1]  # type: ignore[no-any-return]

    def _packed(self, public: Any, layout: Layout) -> Slots:
        """Public data, or random numbers up to its bound (all as large as that in the extreme), in all slots as it meets a value of `layout`."""
        slots = self.params.slot_count
        target = layout.resolve(slots)
        assert target.shape is not None and target.frame is not None
        if isinstance(public, _Unknown):
            shape = target.shape if public.shape is None else public.shape
            rows = []
            for _ in range(self.draws):
                drawn = self.random.uniform(-1, 1, shape)
                rows.append(self._packed_one(public.bound * (np.sign(drawn) if self.extreme else drawn), target, slots))
        else:
            rows = [self._packed_one(public, target, slots)] * self.draws
        return np.array([np.tile(row, slots // row.size) for row in rows], np.complex128)

    @staticmethod
    def _packed_one(public: Any, layout: Layout, slots: int) -> NDArray[Any]:
        if layout.is_dense and np.size(public) == 1 and np.ndim(public) == 0:
            return np.full(1, complex(public))
        _, rows, frame = pack(public, layout, slots)
        row = np.zeros(frame, np.complex128)
        row[: rows[0].size] = rows[0]
        return row

    # -- operations

    def _results(self, op: Operation) -> tuple[Any, ...]:
        nothing = (None,) * len(op.results)
        row = row_of(op)
        if row is None:
            return nothing
        operands = [self.values.get(v) for v in _xdsl.operands(op)]
        if is_public(op):
            return self._public(op, operands)
        with suppress(Exception):  # what cannot be simulated has the error that the noise rules give
            if op.name.startswith(("ren.ckks.prepare.", "ren.ckks.encode")):
                exact = self._prepared(op, operands)
                return (_Sample(exact, exact + self._noise(self._added(op))),)
            compute = _COMPUTE.get(op.name.removeprefix("ren.ckks."))
            if compute is None or any(not isinstance(v, _Sample) for v in operands):
                return nothing
            attributes = row.python_attributes(op.properties)
            clean = compute(self, op, attributes, [v.exact for v in operands])  # type: ignore[union-attr]
            dirty = compute(self, op, attributes, [v.noisy for v in operands])  # type: ignore[union-attr]
            added = self._added(op)
            return tuple(_Sample(c, d + self._noise(added)) for c, d in zip(clean, dirty, strict=True))
        return nothing

    def _public(self, op: Operation, operands: list[Any]) -> tuple[Any, ...]:
        """Public work is done where that has no effects and everything it takes is known."""
        if not any(isinstance(v, _Unknown) or v is None for v in operands):
            found = compute_public(op, tuple(operands), self.machine)
            if found is not None:
                return found
        types = [self.flow.types.get(r, r.type) for r in op.results]
        return tuple(_Unknown(t.data.shape if isinstance(t, MessageType) else None, _bound(t)) for t in types)

    def _prepared(self, op: Operation, operands: list[Any]) -> Slots:
        if isinstance(operands[0], _Sample):  # a caller's plaintext
            return operands[0].exact
        public = operands[0]
        if public is None:
            public = _Unknown(None, _bound(self._type_of(op.results[0])))
        layout = self._layout(op.results[0] if op.name == "ren.ckks.encode" else _xdsl.operands(op)[1])
        return self._packed(public, layout)

    def _added(self, op: Operation) -> Noise | None:
        """What an operation adds by itself: what its rule gives for operands without noise."""
        from ren.schemes.ckks.noise import Noise

        row = row_of(op)
        result = self.flow.types[op.results[0]]
        if row is None or row.noise is None or not isinstance(result, (EncryptedType, PlaintextType)):
            return None
        operands = _xdsl.operands(op)
        case = NoiseCase(
            noises=(Noise(),) * len(operands),
            states=tuple(getattr(self._type_of(v), "data", None) for v in operands),
            result=result.data,
            attributes=row.python_attributes(op.properties),
            params=self.params,
            same=len(operands) == 2 and operands[0] is operands[1],
        )
        with suppress(UnknownNoise):
            return row.noise(case)
        return None

    def _type_of(self, value: SSAValue) -> Attribute:
        return self.flow.types.get(value, value.type)


def _bound(type_: Attribute) -> float:
    found = getattr(getattr(type_, "data", None), "bound", None)
    return 1.0 if found is None else float(found)


# -- what each operation does to slots -----------------------------------------------------------------------------------

_Compute = Callable[[_Simulation, Operation, Mapping[str, Any], list[Slots]], tuple[Slots, ...]]


def _same(s: _Simulation, op: Operation, at: Mapping[str, Any], x: list[Slots]) -> tuple[Slots, ...]:
    return tuple(x[: len(op.results)])


def _reinterpret(s: _Simulation, op: Operation, at: Mapping[str, Any], x: list[Slots]) -> tuple[Slots, ...]:
    before = number_of(s._type_of(_xdsl.operands(op)[0]).data.scale, s.params)  # type: ignore[attr-defined]
    after = number_of(at["scale"], s.params)
    return (x[0] * (float(before) / float(after)),)  # type: ignore[arg-type]


def _sum_slots(s: _Simulation, op: Operation, at: Mapping[str, Any], x: list[Slots]) -> tuple[Slots, ...]:
    total = x[0]
    for step in span_steps(at.get("stride", 1), at.get("count", s._frame(_xdsl.operands(op)[0]))):
        total = total + np.roll(total, step, axis=-1)
    return (total,)


def _polynomial(s: _Simulation, op: Operation, at: Mapping[str, Any], x: list[Slots]) -> tuple[Slots, ...]:
    module: Any = (
        np.polynomial.chebyshev.chebval if at.get("basis") == "chebyshev" else np.polynomial.polynomial.polyval
    )
    return (module(x[0], np.array(at["coefficients"])),)


_COMPUTE: dict[str, _Compute] = {
    **dict.fromkeys(
        ("to_ntt", "from_ntt", "relinearize", "rescale", "mod_switch", "align", "meet", "relayout", "assume_bound"),
        _same,
    ),
    "negate": lambda s, op, at, x: (-x[0],),
    "add": lambda s, op, at, x: (x[0] + x[1],),
    "subtract": lambda s, op, at, x: (x[0] - x[1],),
    "add_plaintext": lambda s, op, at, x: (x[0] + x[1],),
    "subtract_plaintext": lambda s, op, at, x: (x[0] - x[1],),
    "multiply": lambda s, op, at, x: (x[0] * x[1],),
    "multiply_plaintext": lambda s, op, at, x: (x[0] * x[1],),
    "square": lambda s, op, at, x: (x[0] * x[0],),
    "add_scalar": lambda s, op, at, x: (x[0] + at["value"],),
    "multiply_scalar": lambda s, op, at, x: (x[0] * at["value"],),
    "multiply_integer": lambda s, op, at, x: (x[0] * at["value"],),
    "rotate": lambda s, op, at, x: (np.roll(x[0], at["shift"], axis=-1),),
    "rotate_group": lambda s, op, at, x: tuple(np.roll(x[0], k, axis=-1) for k in at["shifts"]),
    "conjugate": lambda s, op, at, x: (np.conj(x[0]),),
    "reinterpret_scale": _reinterpret,
    "sum_slots": _sum_slots,
    "polynomial": _polynomial,
}
