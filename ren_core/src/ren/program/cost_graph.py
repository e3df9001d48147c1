"""The lazy graph of a program on placeholders: nothing is encoded, encrypted or computed, no key is needed.

Public work is left out: it happens on the host before the graph. Its results, encoded plaintexts, are leaves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.errors import ProgramCostError
from ren.graph import Node, next_serial
from ren.ops import Op
from ren.program import _xdsl
from ren.program._xdsl import operation_name
from ren.program.chain import number_of
from ren.program.dialect import at, row_of
from ren.program.extensions import plugin_handler
from ren.program.interpret import builtin_handler, fused_relinearizations
from ren.program.layout import FULL, Layout
from ren.program.literals import decode
from ren.program.machine import Machine
from ren.program.requirements import text_property
from ren.program.rows import Row
from ren.program.types import EncryptedType, PlaintextType
from ren.schemes.ckks.placeholders import PlanningEngine
from ren.schemes.ckks.plaintext import Plaintext

if TYPE_CHECKING:
    from ren.schemes.ckks.scale import Scale

#: Operations of a key switch before its division; where a rescale carries out a relinearization, they belong to the relinearization.
_SWITCHING = frozenset({Op.DECOMPOSE, Op.GADGET_PRODUCT, Op.PART})


@dataclass(frozen=True, slots=True)
class CostGraph:
    """results: what the program returns and has to compute. encoded: plaintexts that would be encoded on the host."""

    results: tuple[Node, ...]
    encoded: int
    _starts: tuple[int, ...]
    _operations: tuple[Operation, ...]
    _relinearized: Mapping[Operation, Operation]

    @property
    def first(self) -> Operation:
        """The first operation: what belongs to no operation is counted with it."""
        return self._operations[0]

    def operation_of(self, node: Node) -> Operation | None:
        """The operation whose handler made a node; None for what no handler made (inputs)."""
        place = bisect_right(self._starts, node.serial) - 1
        if place < 0:
            return None
        op = self._operations[place]
        return self._relinearized.get(op, op) if node.op in _SWITCHING else op


class _PlanningMachine(Machine):
    """Handlers of built-in operations take keys from the planning engine."""

    @property
    def keys(self) -> Any:
        return self.engine.evaluation_keys


def graph_of(
    block: Block, engine: PlanningEngine, workspace: MutableMapping[Any, Any], types: Mapping[SSAValue, Attribute]
) -> CostGraph:
    """Call every handler on placeholders. types: inferred states of all values.

    Raises ProgramCostError naming the operation whose handler does not only build a graph.
    """
    return _Walk(block, engine, workspace, types).graph()


class _Walk:
    def __init__(
        self,
        block: Block,
        engine: PlanningEngine,
        workspace: MutableMapping[Any, Any],
        types: Mapping[SSAValue, Attribute],
    ) -> None:
        self.block = block
        self.engine = engine
        self.types = types
        self.outside = {**workspace, "engine": engine, "evaluation_keys": engine.evaluation_keys}
        # Rotations without a key set take the engine's keys.
        self.machine = _PlanningMachine({**workspace, "evaluation_keys": None}, engine, types)
        self.machine.fused = fused_relinearizations(block)
        self.encoded = 0

    def graph(self) -> CostGraph:
        values: dict[SSAValue, Any] = {}
        for argument in self.block.args:
            values[argument] = self._argument(argument)
        starts: list[int] = []
        operations: list[Operation] = []
        returned: list[Any] = []
        for op in _xdsl.block_ops(self.block):
            operands = tuple(values[v] for v in _xdsl.operands(op))
            if isinstance(op, ReturnOp):
                returned = list(operands)
                break
            starts.append(next_serial())
            operations.append(op)
            for result, value in zip(op.results, self._call(op, operands), strict=True):
                values[result] = value
        relinearized = {next(iter(op.results[0].uses)).operation: op for op in self.machine.fused}
        return CostGraph(_nodes(returned), self.encoded, tuple(starts), tuple(operations), relinearized)

    # -- values

    def _argument(self, argument: SSAValue) -> Any:
        type_ = self.types[argument]
        if isinstance(type_, EncryptedType):
            state = type_.data
            return self.engine.ciphertext(*self._place(state.level, state.scale), self._frame(state.layout))
        if isinstance(type_, PlaintextType):
            return self.engine.encoded(*self._place(type_.data.level, type_.data.scale), self._frame(type_.data.layout))
        return None

    def _place(self, level: int | None, scale: Any) -> tuple[int, Scale]:
        known = 0 if level is None else level
        number = None if scale is None else number_of(scale, self.engine.params)
        return known, self.engine.params.scale_at(known) if number is None else number

    def _frame(self, layout: Layout | None) -> int:
        frame = (FULL if layout is None else layout).resolve(self.engine.num_slots).frame
        assert frame is not None
        return frame

    # -- operations

    def _call(self, op: Operation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        row = row_of(op)
        try:
            if row is not None and not any(isinstance(r.type, (EncryptedType, PlaintextType)) for r in op.results):
                return (None,) * len(op.results)
            if row is not None and row.name.startswith("ren.ckks.") and row.handler is not None:
                return self._builtin(op, row, operands)
            return self._extension(op, row, operands)
        except ProgramCostError:
            raise
        except Exception as error:
            name = operation_name(op)
            raise ProgramCostError(
                f"{name}{at(op)}: its cost is not known, the handler failed on placeholders with {type(error).__name__}: {error}",
                subject=name,
                hint="A handler has to build lazy values only; `run` needs no more",
            ) from error

    def _builtin(self, op: Operation, row: Row, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        name = row.name
        if name.startswith("ren.ckks.prepare."):
            return (self._prepared(op, *operands),)
        if name == "ren.ckks.encode":
            return (self._encoded(op),)
        if name == "ren.ckks.multiply_scalar":
            return (self._times_scalar(op, operands[0]),)
        assert row.handler is not None
        found = builtin_handler(row.handler)(op, operands, self.machine)
        return tuple(found) if len(op.results) != 1 else (found,)

    def _prepared(self, op: Operation, public: Any, x: Any) -> Plaintext:
        if isinstance(
            public, Plaintext
        ):  # the caller's own: dropped to the level of the ciphertext where that is deeper
            assert public.poly is not None and public.scale is not None
            level = max(public.level, x.level)
            return Plaintext(
                public.poly.mod_drop(level - public.level),
                level,
                public.scale,
                x.slots,
                public.bound,
                True,
                public.params_id,
            )
        self.encoded += 1
        default = text_property(op, "scale_mode") == "default_scale"
        return self.engine.encoded(x.level, self.engine.params.scale_at(x.level) if default else x.scale, x.slots)

    def _encoded(self, op: Operation) -> Plaintext:
        self.encoded += 1
        attributes = {name: decode(a) for name, a in op.properties.items()}
        level, scale = self._place(attributes["level"], attributes.get("scale"))
        return self.engine.encoded(level, scale, self._frame(attributes.get("layout")))

    def _times_scalar(self, op: Operation, x: Any) -> Any:
        self.encoded += 1
        scale = decode(op.properties["scale"]) if "scale" in op.properties else None
        factor = self.engine.encoded(*self._place(x.level, scale), x.slots)
        return self.engine.multiply(x, factor, rescale=False)

    def _extension(self, op: Operation, row: Row | None, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        name = operation_name(op)
        handler = (self.outside.get("handlers") or {}).get(name) or plugin_handler(name)
        if handler is None and row is not None and row.handler is not None:
            handler = builtin_handler(row.handler)
        if handler is None:
            raise ProgramCostError(f"{name}{at(op)}: its cost is not known, nothing executes it", subject=name)
        found = handler(op, operands, self.outside)
        return tuple(found) if len(op.results) != 1 else (found,)


def _nodes(values: list[Any]) -> tuple[Node, ...]:
    """The nodes of all polynomials of encrypted results."""
    polys = [p for v in values for name in ("a", "b", "c") if (p := getattr(v, name, None)) is not None]
    return tuple(p._node for p in polys if p._node.realized is None)
