"""Lowering of `elementwise` and `copy`: from a straight-line program to the words that `elementwise.cu` interprets.

Sums of products become 128-bit sums with one reduction at the end. A value that only the next instruction reads stays in the interpreter's
own registers, others get a row of shared memory by their last use. A result goes straight to its output once no input is read
any more: outputs may be the memory of inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ren.engine.exec_unit import ExecUnit
from ren.ops import ELEMENTWISE_OPCODES, Domain

from ren_backend_cuda.lowered import (
    Arguments,
    At,
    Pattern,
    Step,
    blocks,
    check_operands,
    domain_of,
    parameters,
    require,
    support,
    u32,
)
from ren_backend_cuda.tables import Tables

#: Operands of each opcode: r a register, s a scalar.
_SIGNATURES = dict(
    zip(ELEMENTWISE_OPCODES, ("rr", "rr", "r", "rr", "rrr", "rs", "rs", "rs", "rs", "s"), strict=True)  # add .. const
)

# -- the interpreter's code: `Operation` and places of kernels/elementwise.cu

_OPERATIONS = (
    *("copy", "add", "sub", "neg", "mul", "start", "accumulate", "reduce", "fold"),
    *("scale", "addc", "subc", "csub", "const"),
)
CODE = {name: number for number, name in enumerate(_OPERATIONS)}
PLACE_BITS = 12
MEMORY = 1 << (PLACE_BITS - 1)
LAST = (1 << PLACE_BITS) - 1
NOTHING = LAST - 1
#: Products of residues that a 128-bit sum holds beside a reduced one and a word: kSumTerms of kernels/modarith.cuh.
SUM_TERMS = 32

_THREADS = (128, 64, 32)
_ROW_BYTES = 16
_SHARED_BYTES = 48 * 1024
_COPY_THREADS = 256
_COPY_BLOCKS = 4096


@dataclass(frozen=True, slots=True)
class _Node:
    """One value: `code` of its operands, or with code "sum" the products of `pairs` plus the value `reads[0]`, if any."""

    value: int
    code: str
    reads: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    scalar: int = -1

    @property
    def uses(self) -> tuple[int, ...]:
        return (*self.reads, *(v for pair in self.pairs for v in pair))


def _nodes(inputs: int, instructions: tuple[tuple[Any, ...], ...], results: tuple[int, ...]) -> list[_Node]:
    """The values that results need, products and sums of them put together."""
    made: dict[int, _Node] = {}
    for position, (opcode, *operands) in enumerate(instructions):
        value = inputs + position
        if opcode == "mul":
            node = _Node(value, "sum", (), ((operands[0], operands[1]),))
        elif opcode == "mac":
            node = _Node(value, "sum", (operands[2],), ((operands[0], operands[1]),))
        else:
            registers = _SIGNATURES[opcode].count("r")
            scalar = operands[registers] if registers < len(operands) else -1
            node = _Node(value, opcode, tuple(operands[:registers]), (), scalar)
        made[value] = node
    made = _needed(made, results)
    used = Counter([*results, *(v for node in made.values() for v in node.uses)])
    for value, node in list(made.items()):
        made[value] = _absorb(node, made, used)
    return list(_needed(made, results).values())


def _needed(made: dict[int, _Node], results: tuple[int, ...]) -> dict[int, _Node]:
    """The nodes that results depend on, in order."""
    wanted = set(results)
    for value in reversed(made):
        if value in wanted:
            wanted.update(made[value].uses)
    return {value: node for value, node in made.items() if value in wanted}


def _absorb(node: _Node, made: dict[int, _Node], used: Counter[int]) -> _Node:
    """Take the sums that only this node uses into it: mac onto a product, the sum of two products, and so on."""

    def sum_of(value: int) -> _Node | None:
        found = made.get(value)
        return found if found is not None and found.code == "sum" and used[value] == 1 else None

    if node.code == "sum" and node.reads:
        inner = sum_of(node.reads[0])
        return node if inner is None else replace(node, reads=inner.reads, pairs=inner.pairs + node.pairs)
    if node.code != "add" or node.reads[0] == node.reads[1]:
        return node
    a, b = (sum_of(v) for v in node.reads)
    if a is not None and b is not None and not (a.reads and b.reads):
        return _Node(node.value, "sum", a.reads or b.reads, a.pairs + b.pairs)
    # A sum with an addend of its own cannot take the other operand as well.
    for inner, other in ((a, node.reads[1]), (b, node.reads[0])):
        if inner is not None and not inner.reads:
            return _Node(node.value, "sum", (other,), inner.pairs)
    return node


@dataclass(frozen=True, slots=True)
class Program:
    """Words for the interpreter. rows: of shared memory per thread."""

    words: tuple[int, ...]
    rows: int


class _Assembler:
    """Places values and writes instructions. Operand numbers: inputs, scalars, outputs."""

    def __init__(self, inputs: int, scalars: int, nodes: list[_Node], results: tuple[int, ...]) -> None:
        self.inputs, self.nodes, self.results = inputs, nodes, results
        self.first_scalar, self.first_output = MEMORY + inputs, MEMORY + inputs + scalars
        self.place: dict[int, int] = {v: MEMORY + v for v in range(inputs)}
        self.words: list[int] = []
        self.free: list[int] = []
        self.rows = 0
        self.outputs: dict[int, list[int]] = {}
        for number, value in enumerate(results):
            self.outputs.setdefault(value, []).append(self.first_output + number)
        self.previous = -1
        self.last_use: dict[int, int] = {}
        for at, node in enumerate(nodes):
            self.last_use.update(dict.fromkeys(node.uses, at))

    def program(self) -> Program:
        from_memory = [at for at, node in enumerate(self.nodes) if any(v < self.inputs for v in node.uses)]
        # Inputs that are results are read after the last node, so nothing is stored before.
        inputs_last = any(v < self.inputs for v in self.results)
        stores_from = len(self.nodes) if inputs_last else max(from_memory, default=0)
        for at, node in enumerate(self.nodes):
            self._release(at)
            target = self._target(node.value, at, at >= stores_from)
            self._emit(node, target)
            self.place[node.value] = target
            self.previous = node.value
        self._store()
        return Program(tuple(self.words), self.rows)

    def _release(self, at: int) -> None:
        """Rows of values that no later node reads. Those that this node reads stay: its result may not overwrite them."""
        for value, place in list(self.place.items()):
            if place < MEMORY and value not in self.outputs and self.last_use[value] < at:
                self.free.append(place)
                del self.place[value]

    def _target(self, value: int, at: int, may_store: bool) -> int:
        outputs = self.outputs.get(value)
        if outputs:
            return outputs[0] if may_store else self._row()
        return LAST if self.last_use[value] == at + 1 else self._row()

    def _row(self) -> int:
        if not self.free:
            self.free.append(self.rows)
            self.rows += 1
        return self.free.pop()

    def _write(self, code: str, target: int, a: int = NOTHING, b: int = NOTHING, c: int = NOTHING) -> None:
        word = CODE[code]
        for place in (c, b, a, target):
            word = word << PLACE_BITS | place
        self.words.append(word)

    def _where(self, value: int) -> int:
        """The result of the node before is still in the interpreter's registers, also through a sum."""
        return LAST if value == self.previous else self.place[value]

    def _emit(self, node: _Node, target: int) -> None:
        places = [self._where(v) for v in node.reads]
        if node.scalar >= 0:
            places.append(self.first_scalar + node.scalar)
        if node.code != "sum":
            self._write(node.code, target, *places)
            return
        if len(node.pairs) == 1 and not places:
            a, b = node.pairs[0]
            self._write("mul", target, self._where(a), self._where(b))
            return
        for number, (a, b) in enumerate(node.pairs):
            if number:
                self._write("accumulate", LAST, self._where(a), self._where(b))
            else:
                self._write("start", LAST, self._where(a), self._where(b), *places)
            if number % SUM_TERMS == SUM_TERMS - 1 and number + 1 < len(node.pairs):
                self._write("fold", LAST)
        self._write("reduce", target)

    def _store(self) -> None:
        """Results that are not in their outputs yet: all inputs are read before the first output is written."""
        pending = [(v, out) for v, outs in self.outputs.items() for out in outs if self.place[v] != out]
        for value in dict.fromkeys(v for v, _ in pending if v < self.inputs):
            row = self._row()
            self._write("copy", row, self.place[value])
            self.place[value] = row
        for value, out in pending:
            self._write("copy", out, self.place[value])


def program(inputs: int, scalars: int, instructions: tuple[tuple[Any, ...], ...], results: tuple[int, ...]) -> Program:
    """The interpreter's words of an element-wise program (parameters as in `ren.ops`)."""
    return _Assembler(inputs, scalars, _nodes(inputs, instructions, results), results).program()


# -- units -----------------------------------------------------------------------------------------------------------


def _checked(unit: ExecUnit) -> tuple[int, int, tuple[tuple[Any, ...], ...], tuple[int, ...], Domain]:
    """The checked parameters of an element-wise unit."""
    inputs, scalars, instructions, results, domain = parameters(unit, 5)
    for position, (opcode, *operands) in enumerate(instructions):
        signature = _SIGNATURES.get(opcode, "")
        malformed = f"instruction {position} is malformed: {(opcode, *operands)}"
        require(signature != "" and len(signature) == len(operands), unit, malformed)
        for kind, operand in zip(signature, operands, strict=True):
            bound = inputs + position if kind == "r" else scalars
            require(0 <= operand < bound, unit, f"instruction {position} names operand {operand} of {bound}")
    require(all(0 <= r < inputs + len(instructions) for r in results), unit, f"output registers {results} do not exist")
    return inputs, scalars, tuple(tuple(i) for i in instructions), tuple(results), domain_of(unit, domain)


def _places(count: int) -> Iterable[At]:
    return (At(number) for number in range(count))


def lower_elementwise(unit: ExecUnit, tables: Tables) -> Pattern:
    inputs, scalars, instructions, results, domain = _checked(unit)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    check_operands(unit, (limbs * n,) * inputs, (limbs * n,) * len(results), (limbs,) * scalars)
    operands = inputs + scalars + len(results)
    support(operands < NOTHING - MEMORY, unit, f"{operands} operands, at most {NOTHING - MEMORY - 1}")
    made = program(inputs, scalars, instructions, results)
    fitting = [t for t in _THREADS if t * _ROW_BYTES * made.rows <= _SHARED_BYTES]
    support(bool(fitting), unit, f"{made.rows} values are needed at once, at most {_SHARED_BYTES // _ROW_BYTES // 32}")
    threads = min(fitting[0], n // 2)
    words = tables.constant(made.words)
    first_only = domain is Domain.COEFF
    arguments: Arguments = (tables.ring(n, moduli), words, *u32(len(made.words), first_only, n))
    grid = (blocks(n // 2, threads), limbs, 1)
    shared = threads * _ROW_BYTES * made.rows
    return Pattern((Step("elementwise", "elementwise", grid, threads, tuple(_places(operands)), arguments, shared),))


def copy_step(words: int, x: At, out: At) -> Step:
    """The launch that copies an even number of words."""
    pairs = words // 2
    count = min(blocks(pairs, _COPY_THREADS), _COPY_BLOCKS)
    return Step("elementwise", "copy", (count, 1, 1), _COPY_THREADS, (x, out), (np.uint64(pairs),))


def lower_copy(unit: ExecUnit, tables: Tables) -> Pattern:
    parameters(unit, 0)
    words = unit.ring.limbs * unit.ring.n
    check_operands(unit, (words,), (words,))
    return Pattern((copy_step(words, At(0), At(1)),))
