"""Nodes of a drawing: what stands in the record of each operation, argument and output."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ren.program.cost_table import bits
from ren.program.dialect import OBLIGATIONS_ATTRIBUTE, obligations_of, row_of, source_of
from ren.program.edit import block_ops, operands, operation_name
from ren.program.flow import Flow, flow_of
from ren.program.types import EncryptedType, PlaintextType, role_of
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ren_passes.visualize_svg_style import SvgGraphPresentation

if TYPE_CHECKING:
    from ren.program.cost import OperationCost, ProgramCost


@dataclass(frozen=True, slots=True)
class Node:
    """lines: of the record, the first is its title. sources: numbers of the nodes whose results it takes, with the name of the value."""

    lines: tuple[str, ...]
    fill: str
    tooltip: str
    kind: str
    sources: tuple[tuple[int, str], ...] = ()


class Records:
    """The nodes of one function. An engine in the workspace makes scales numbers; cost gives the numbers of costs and errors."""

    def __init__(
        self,
        function: FuncOp,
        presentation: SvgGraphPresentation,
        workspace: MutableMapping[Any, Any],
        cost: ProgramCost | None = None,
    ) -> None:
        self.presentation = presentation
        self.costs = {} if cost is None else {row.operation: row for row in cost.rows}
        self.params = getattr(workspace.get("engine"), "params", None)
        self.flow: Flow = flow_of(function, self.params)
        self.names: dict[SSAValue, str] = {}
        self.nodes: list[Node] = []
        self._made: dict[SSAValue, int] = {}
        block = function.body.blocks.first
        if block is None:
            return
        for i, argument in enumerate(block.args):
            self._argument(argument, i)
        for op in block_ops(block):
            if isinstance(op, ReturnOp):
                self._output(op)
            else:
                self._operation(op)

    def _name(self, value: SSAValue) -> str:
        if value not in self.names:
            self.names[value] = f"%{value.name_hint}" if value.name_hint else f"%{len(self.names)}"
        return self.names[value]

    def _add(self, node: Node, results: tuple[SSAValue, ...]) -> None:
        for result in results:
            self._made[result] = len(self.nodes)
        self.nodes.append(node)

    def _sources(self, op: Operation) -> tuple[tuple[int, str], ...]:
        return tuple((self._made[v], self._name(v)) for v in operands(op) if v in self._made)

    def _argument(self, value: SSAValue, index: int) -> None:
        lines = [f"{self._name(value)}: argument {index}", *self._state_lines((value,), cost=None)]
        if "role" in self.presentation.shown:
            lines.insert(1, f"role: {role_of(value.type) or value.type}")
        fill = self.presentation.colours.argument
        self._add(Node(tuple(lines), fill, str(value.type), "argument"), (value,))

    def _output(self, op: Operation) -> None:
        lines = ["output", ", ".join(self._name(v) for v in operands(op)) or "nothing"]
        fill = self.presentation.colours.output
        self._add(Node(tuple(lines), fill, "what the function returns", "output", self._sources(op)), ())

    def _operation(self, op: Operation) -> None:
        p = self.presentation
        lines = self._lines(op)
        if p.operation_sections is not None:
            lines = [str(line) for line in p.operation_sections(op, lines)]
        tooltip = self._tooltip(op) if p.operation_tooltip is None else str(p.operation_tooltip(op))
        node = Node(tuple(lines) or (operation_name(op),), p.colours.fill(op), tooltip, "operation", self._sources(op))
        self._add(node, tuple(op.results))

    def _lines(self, op: Operation) -> list[str]:
        p, shown = self.presentation, self.presentation.shown
        name = operation_name(op)
        results = ", ".join(self._name(r) for r in op.results)
        title = [part for field, part in (("name", results), ("opcode", name)) if field in shown and part]
        lines = [" = ".join(title)] if title else []
        if "opcode" in shown and "ren.call.target" in op.properties:
            lines.append(f"target: {op.properties['ren.call.target'].data}")  # type: ignore[attr-defined]
        if "role" in shown and op.results:
            lines.append("role: " + ", ".join(role_of(r.type) or str(r.type) for r in op.results))
        lines += self._state_lines(tuple(op.results), cost=self._cost(op))
        found = self.costs.get(op)
        if "error" in shown and found is not None and found.error is not None:
            lines.append(f"error: {bits(found.error.rms)} rms, {bits(found.error.maximum)} max")
        if "operands" in shown and operands(op):
            lines.append("operands: " + ", ".join(self._name(v) for v in operands(op)))
        if "result_types" in shown:
            lines += [f"type: {p.cut(r.type)}" for r in op.results]
        if "attributes" in shown:
            lines += self._attributes(op)
        if "scheduling_obligations" in shown and obligations_of(op):
            lines.append("owes: " + ", ".join(obligations_of(op)))
        if "num_users" in shown and op.results:
            lines.append(f"users: {sum(1 for r in op.results for _ in r.uses)}")
        source = source_of(op)
        if "location" in shown and source is not None:
            lines.append(f"at {source[0]}:{source[1]}")
        return lines

    def _state_lines(self, values: tuple[SSAValue, ...], *, cost: str | None) -> list[str]:
        shown = self.presentation.shown
        found = (self.flow.types.get(v, v.type) for v in values)
        states = [t.data for t in found if isinstance(t, (EncryptedType, PlaintextType))]
        lines = []
        if "level" in shown and states and states[0].level is not None:
            lines.append(f"level: {states[0].level}")
        if "scale" in shown and states and states[0].scale is not None:
            lines.append(f"scale: {states[0].scale}")
        if "cost" in shown and cost is not None:
            lines.append(f"cost: {cost}")
        return lines

    def _cost(self, op: Operation) -> str | None:
        """What the operation costs: its kind, and where costs are known what it takes in the schedule of the whole program."""
        row = row_of(op)
        if row is None or row.cost == "free" or row.stage != "ckks":
            return None
        kind = row.cost.replace("_", " ")
        found = self.costs.get(op)
        return kind if found is None else ", ".join([kind, *_numbers(found)])

    def _attributes(self, op: Operation) -> list[str]:
        p = self.presentation
        found: dict[str, Attribute] = {**op.properties, **op.attributes}
        found.pop(OBLIGATIONS_ATTRIBUTE, None)
        found.pop("op_name__", None)
        if p.attribute_names is not None:
            found = {n: a for n, a in found.items() if n in p.attribute_names}
        if p.select_attributes is not None:
            found = dict(p.select_attributes(op, found))
        write = p.format_attribute_value
        return [p.cut(f"{n}: {a if write is None else write(n, a)}") for n, a in found.items()]

    def _tooltip(self, op: Operation) -> str:
        row, source = row_of(op), source_of(op)
        where = "" if source is None else f"\n{source[0]}:{source[1]}"
        types = ", ".join(str(r.type) for r in op.results)
        return f"{operation_name(op)}\n{row.summary if row is not None else 'operation of an unknown dialect'}\n{types}{where}"


def _numbers(cost: OperationCost) -> list[str]:
    """The numbers of a cost that are not zero."""
    counted = (
        (cost.key_switches, "key switch", "key switches"),
        (cost.transforms, "NTT row", "NTT rows"),
        (cost.rescales, "rescale", "rescales"),
    )
    found = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    return found + ([f"{cost.seconds * 1e6:.0f} us"] if cost.seconds else [])
