"""Lowering of `elementwise` and `copy`: from a straight-line program to the interpreter's table.

Peephole: a product that is only added to another product becomes DOT2 (one reduction instead of two), one that is only subtracted
SUB_MUL, a scaled value that is only added SCALE_ADD, and the product of two ciphertexts becomes TENSOR. Registers are placed by their last use, results directly in their outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit
from ren.ops import ELEMENTWISE_OPCODES, Domain

from ren_backend_cpu.kernels import elementwise as code
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, part, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table

#: Operands of each opcode: r a register, s a scalar.
_SIGNATURES = dict(
    zip(ELEMENTWISE_OPCODES, ("rr", "rr", "r", "rr", "rrr", "rs", "rs", "rs", "rs", "s"), strict=True)  # add .. const
)
#: Words of all live rows of a block together: half of a 32 KiB first-level cache and more leaves room for constants.
_CACHE_WORDS = 3072
_LONGEST_BLOCK = 1024
_SHORTEST_BLOCK = 128

_PLAIN = {"add": code.ADD, "sub": code.SUB, "neg": code.NEG, "mul": code.MUL, "mac": code.MAC}
_EVERYWHERE = {"addc": code.ADD_ALL, "subc": code.SUB_ALL, "csub": code.SUB_FROM_ALL}


@dataclass(frozen=True, slots=True)
class _Step:
    """One interpreter instruction over virtual registers: what it writes, reads, and the scalar it uses (or -1)."""

    opcode: int
    writes: tuple[int, ...]
    reads: tuple[int, ...] = ()
    scalar: int = -1


@dataclass(frozen=True, slots=True)
class Program:
    """Interpreter tables: for outputs apart from the inputs read after them, and for the `hazards` where they are not.

    words: scratch that either needs.
    """

    direct: NDArray[np.int64]
    overlapping: NDArray[np.int64]
    hazards: NDArray[np.int64]
    words: int


def _steps(inputs: int, instructions: tuple[tuple[Any, ...], ...], domain: Domain) -> list[_Step]:
    """One step per instruction, two where a constant touches coefficient 0 alone. Registers keep their numbers."""
    steps = []
    for position, (opcode, *operands) in enumerate(instructions):
        out = (inputs + position,)
        if opcode in _PLAIN:
            steps.append(_Step(_PLAIN[opcode], out, tuple(operands)))
        elif opcode == "scale":
            steps.append(_Step(code.SCALE, out, (operands[0],), operands[1]))
        elif domain is Domain.NTT:
            if opcode == "const":
                steps.append(_Step(code.FILL, out, (), operands[0]))
            else:
                steps.append(_Step(_EVERYWHERE[opcode], out, (operands[0],), operands[1]))
        else:
            first = code.CLEAR if opcode == "const" else code.NEG if opcode == "csub" else code.COPY
            steps.append(_Step(first, out, tuple(operands[:-1])))
            then = code.SUB_FIRST if opcode == "subc" else code.ADD_FIRST
            steps.append(_Step(then, out, out, operands[-1]))
    return steps


def _use_counts(steps: list[_Step], results: tuple[int, ...]) -> dict[int, int]:
    uses: dict[int, int] = {}
    for r in (*results, *(r for s in steps for r in s.reads)):
        uses[r] = uses.get(r, 0) + 1
    return uses


def _fuse(steps: list[_Step], results: tuple[int, ...]) -> list[_Step]:
    """mul then mac onto it, or a sum of two products -> DOT2; c - a b -> SUB_MUL; a s + b -> SCALE_ADD; the four products of two pairs -> TENSOR."""
    uses = _use_counts(steps, results)
    products = {s.writes[0]: s for s in steps if s.opcode == code.MUL}
    scaled = {s.writes[0]: s for s in steps if s.opcode == code.SCALE}
    gone: set[int] = set()
    fused = []
    for s in steps:
        once = [r for r in s.reads if uses[r] == 1]
        if s.opcode == code.MAC and s.reads[2] in products and uses[s.reads[2]] == 1:
            gone.add(s.reads[2])
            s = _Step(code.DOT2, s.writes, products[s.reads[2]].reads + s.reads[:2])
        elif s.opcode == code.ADD and all(r in products and uses[r] == 1 for r in s.reads):
            gone.update(s.reads)
            s = _Step(code.DOT2, s.writes, products[s.reads[0]].reads + products[s.reads[1]].reads)
        elif s.opcode == code.SUB and s.reads[1] in products and s.reads[1] in once:
            gone.add(s.reads[1])
            s = _Step(code.SUB_MUL, s.writes, (*products[s.reads[1]].reads, s.reads[0]))
        elif s.opcode == code.ADD and any(r in scaled for r in once):
            r = next(r for r in once if r in scaled)
            other = s.reads[1] if s.reads[0] == r else s.reads[0]
            gone.add(r)
            s = _Step(code.SCALE_ADD, s.writes, (scaled[r].reads[0], other), scaled[r].scalar)
        fused.append(s)
    fused = [s for s in fused if not (s.opcode in (code.MUL, code.SCALE) and s.writes[0] in gone)]
    return _fuse_tensor(fused)


def _fuse_tensor(steps: list[_Step]) -> list[_Step]:
    for at, s in enumerate(steps):
        if s.opcode != code.DOT2:
            continue
        p, q, r, t = s.reads
        pairs = {frozenset((x.reads[0], x.reads[1])): k for k, x in enumerate(steps) if x.opcode == code.MUL}
        # a0 b1 + a1 b0, either factor first in either product
        for a0, b1 in ((p, q), (q, p)):
            for a1, b0 in ((r, t), (t, r)):
                first, last = pairs.get(frozenset((a0, b0))), pairs.get(frozenset((a1, b1)))
                if first is None or last is None or first == last or len({a0, a1, b0, b1}) != 4:
                    continue
                ready = max((k for k, x in enumerate(steps) if set(x.writes) & {a0, a1, b0, b1}), default=-1)
                users = [
                    k
                    for k, x in enumerate(steps)
                    if set(x.reads) & {s.writes[0], steps[first].writes[0], steps[last].writes[0]}
                ]
                place = max(ready + 1, min(at, first, last))
                if users and min(users) <= max(at, first, last):
                    continue  # a result is used between the three products: they cannot move together
                writes = steps[first].writes + s.writes + steps[last].writes
                rest = [x for k, x in enumerate(steps) if k not in (at, first, last)]
                position = place - sum(k < place for k in (at, first, last))
                return [*rest[:position], _Step(code.TENSOR, writes, (a0, a1, b0, b1)), *rest[position:]]
    return steps


def _drop_dead(steps: list[_Step], results: tuple[int, ...]) -> list[_Step]:
    """Steps whose values nobody reads."""
    wanted = set(results)
    kept = []
    for s in reversed(steps):
        if wanted & set(s.writes):
            wanted |= set(s.reads)
            kept.append(s)
    return kept[::-1]


def _place(
    steps: list[_Step], inputs: int, scalars: int, results: tuple[int, ...], direct: bool
) -> tuple[list[tuple[int, ...]], int, list[tuple[int, int]]]:
    """Instructions over places, scratch registers used, and (output operand, input operand) pairs that must not overlap.

    Operand numbers: inputs, scalars, outputs, as in ExecUnit.operands. direct: results are computed in their outputs.
    """
    first_output = inputs + scalars
    place = {r: r for r in range(inputs)}
    if direct:
        for k, r in enumerate(results):
            if r >= inputs:
                place.setdefault(r, first_output + k)
    last_use = {r: at for at, s in enumerate(steps) for r in (*s.reads, *s.writes)}
    last_use |= dict.fromkeys(results, len(steps))
    free: list[int] = []
    used = 0
    rows: list[tuple[int, ...]] = []
    hazards: list[tuple[int, int]] = []
    written: list[int] = []
    for at, s in enumerate(steps):
        hazards += [(out, r) for out in written for r in s.reads if r < inputs]
        for r in s.writes:
            if r not in place:
                if not free:
                    used += 1
                    free.append(-used)
                place[r] = free.pop()
        outs = [place[r] for r in s.writes]
        reads = [place[r] for r in s.reads]
        if s.opcode in (code.ADD_FIRST, code.SUB_FIRST):
            reads = []  # in place
        rows.append((s.opcode, *outs, *reads, *([inputs + s.scalar] if s.scalar >= 0 else [])))
        written += [p for p in outs if p >= first_output]
        free += [place[r] for r in {*s.reads, *s.writes} if place[r] < 0 and last_use[r] == at]
    for k, r in enumerate(results):
        out = first_output + k
        if place[r] != out:
            hazards += [(w, r) for w in written if r < inputs]
            rows.append((code.COPY, out, place[r]))
            written.append(out)
    return rows, used, list(dict.fromkeys(hazards))


def _keep_inputs(steps: list[_Step], inputs: int, results: tuple[int, ...]) -> tuple[list[_Step], tuple[int, ...]]:
    """Results that are inputs are first copied to registers: then no output is written before the last input is read."""
    fresh = 1 + max([inputs, *(r for s in steps for r in s.writes)])
    renamed = {r: fresh + k for k, r in enumerate(sorted({r for r in results if r < inputs}))}
    copies = [_Step(code.COPY, (new,), (old,)) for old, new in renamed.items()]
    return steps + copies, tuple(renamed.get(r, r) for r in results)


def _table(rows: list[tuple[int, ...]], block: int) -> NDArray[np.int64]:
    table = np.zeros(code.HEADER_WORDS + code.INSTRUCTION_WORDS * len(rows), np.int64)
    table[0], table[1] = len(rows), block
    for k, row in enumerate(rows):
        at = code.HEADER_WORDS + code.INSTRUCTION_WORDS * k
        table[at : at + len(row)] = row
    return table


@lru_cache(maxsize=512)
def program(
    n: int,
    inputs: int,
    scalars: int,
    instructions: tuple[tuple[Any, ...], ...],
    results: tuple[int, ...],
    domain: Domain,
) -> Program:
    """The interpreter's tables of an element-wise program (parameters as in `ren.ops`)."""
    steps = _drop_dead(_fuse(_steps(inputs, instructions, domain), results), results)
    direct, used, hazards = _place(steps, inputs, scalars, results, direct=True)
    late_steps, late_results = _keep_inputs(steps, inputs, results)
    late, late_used, _ = _place(late_steps, inputs, scalars, late_results, direct=False)
    live = inputs + len(results) + used
    block = _LONGEST_BLOCK
    while block > _SHORTEST_BLOCK and block * live > _CACHE_WORDS:
        block //= 2
    if len(direct) == 1:
        block = n  # nothing to keep in the cache between instructions
    late_block = min(_LONGEST_BLOCK if block == n else block, n)
    block = min(block, n)
    pairs = np.array([len(hazards), *(x for pair in hazards for x in pair)], np.int64)
    return Program(
        _table(direct, block),
        _table(late, late_block),
        pairs,
        max(used * block, late_used * late_block if hazards else 0),
    )


def _parameters(unit: ExecUnit) -> tuple[int, int, tuple[tuple[Any, ...], ...], tuple[int, ...], Domain]:
    """The checked parameters of an element-wise unit."""
    inputs, scalars, instructions, results, domain = parameters(unit, 5)
    require(domain in tuple(Domain), unit, f"{domain!r} is no domain")
    for position, (opcode, *operands) in enumerate(instructions):
        signature = _SIGNATURES.get(opcode, "")
        malformed = f"instruction {position} is malformed: {(opcode, *operands)}"
        require(signature != "" and len(signature) == len(operands), unit, malformed)
        for kind, operand in zip(signature, operands, strict=True):
            bound = inputs + position if kind == "r" else scalars
            require(0 <= operand < bound, unit, f"instruction {position} names operand {operand} of {bound}")
    require(all(0 <= r < inputs + len(instructions) for r in results), unit, f"output registers {results} do not exist")
    return inputs, scalars, tuple(tuple(i) for i in instructions), tuple(results), Domain(domain)


def _program_of(unit: ExecUnit) -> Program:
    inputs, scalars, instructions, results, domain = _parameters(unit)
    return program(unit.ring.n, inputs, scalars, instructions, results, domain)


def _lower_elementwise(unit: ExecUnit) -> Lowered:
    inputs, scalars, _, results, _ = _parameters(unit)
    n, limbs = unit.ring.n, unit.ring.limbs
    made = _program_of(unit)
    check_operands(unit, (limbs * n,) * inputs, (limbs * n,) * len(results), made.words)
    found = tuple(o.words for o in unit.scalars)
    require(found == (limbs,) * scalars, unit, f"{scalars} scalars of {limbs} words, got {found}")
    table = ring_table(unit.ring)
    operands = unit.inputs + unit.scalars + unit.outputs
    row = (table.address, limbs, n, made.direct, made.overlapping, made.hazards, len(operands))
    local = part(unit.scratch[0], 0, made.words) if made.words else None
    return Lowered(code.elementwise, row + operands, (table,), limbs, local)


def _lower_copy(unit: ExecUnit) -> Lowered:
    parameters(unit, 0)
    words = unit.ring.limbs * unit.ring.n
    check_operands(unit, (words,), (words,))
    return Lowered(code.copy, (unit.inputs[0], unit.outputs[0], words))


ELEMENTWISE = Lowering(_lower_elementwise, lambda unit: _program_of(unit).words)
COPY = Lowering(_lower_copy)
