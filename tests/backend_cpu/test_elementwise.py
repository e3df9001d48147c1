"""The element-wise interpreter: values, operands that share memory, and what the peephole makes of known shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend
from ren_backend_cpu.kernels import elementwise as code
from ren_backend_cpu.lower_elementwise import program

Words = NDArray[np.uint64]
Instructions = tuple[tuple[Any, ...], ...]

BACKEND = CpuBackend()
SIZES = (2, 8, 64, 128, 2048, 4096)


def ring_of(n: int) -> RingSpec:
    """One modulus for each kind of arithmetic."""
    return RingSpec(n, tuple(next(ntt_primes_below(1 << bits, n)) for bits in (30, 46, 50, 61)))


def expected(
    ring: RingSpec, instructions: Instructions, domain: Domain, inputs: list[Words], scalars: list[Words]
) -> list[list[int]]:
    """All registers in Python integers."""
    q = [m for m in ring.moduli for _ in range(ring.n)]
    size = len(q)
    registers = [x.tolist() for x in inputs]

    def constant(s: int) -> list[int]:
        words = scalars[s].tolist()
        everywhere = domain is Domain.NTT
        return [words[i // ring.n] if everywhere or i % ring.n == 0 else 0 for i in range(size)]

    def value(opcode: str, a: int, b: int = 0, c: int = 0) -> list[int]:
        if opcode == "const":
            return constant(a)
        x = registers[a]
        match opcode:
            case "neg":
                return [-u for u in x]
            case "scale":
                return [u * int(scalars[b][i // ring.n]) for i, u in enumerate(x)]
            case "addc" | "subc" | "csub":
                y = constant(b)
            case _:
                y = registers[b]
        match opcode:
            case "add" | "addc":
                return [u + v for u, v in zip(x, y, strict=True)]
            case "sub" | "subc":
                return [u - v for u, v in zip(x, y, strict=True)]
            case "csub":
                return [v - u for u, v in zip(x, y, strict=True)]
            case "mul":
                return [u * v for u, v in zip(x, y, strict=True)]
            case _:
                return [u * v + w for u, v, w in zip(x, y, registers[c], strict=True)]

    for opcode, *operands in instructions:
        registers.append([v % m for v, m in zip(value(opcode, *operands), q, strict=True)])
    return registers


def random_rows(ring: RingSpec, count: int, n: int, seed: int) -> list[Words]:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        rows = [
            rng.choice([rng.integers(0, q, n, np.uint64), np.full(n, q - 1, np.uint64)], axis=0) for q in ring.moduli
        ]
        out.append(np.concatenate(rows).astype(np.uint64))
    return out


def run(
    ring: RingSpec,
    params: tuple[Any, ...],
    inputs: list[Words],
    scalars: list[Words],
    shared: dict[int, int] | None = None,
) -> list[Words]:
    """Run one unit. shared: output k is the memory of input shared[k]."""
    words = ring.n * ring.limbs
    places = [Operand(k, 0, x.size) for k, x in enumerate([*inputs, *scalars])]
    memories = [BACKEND.alloc(o.words) for o in places]
    for memory, data in zip(memories, [*inputs, *scalars], strict=True):
        BACKEND.copyin(memory, 0, data)
    outputs = []
    for k in range(len(params[3])):
        outputs.append(Operand(len(places) + k, 0, words))
        memories.append(memories[shared[k]] if shared and k in shared else BACKEND.alloc(words))
    ins, scs = tuple(places[: len(inputs)]), tuple(places[len(inputs) :])
    unit = ExecUnit("elementwise", ring, params, ins, scs, tuple(outputs))
    need = BACKEND.scratch_words(unit)
    if need:
        unit = ExecUnit("elementwise", ring, params, ins, scs, tuple(outputs), (Operand(len(memories), 0, need),))
        memories.append(BACKEND.alloc(need))
    BACKEND.compile(unit)([(m, 0) for m in memories])
    first = len(places)
    return [BACKEND.copyout(memories[first + k], 0, words) for k in range(len(outputs))]


TENSOR: Instructions = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
PROGRAMS: tuple[tuple[int, int, Instructions, tuple[int, ...]], ...] = (
    (4, 0, TENSOR, (4, 6, 7)),
    (4, 0, (("mul", 3, 1), ("mul", 2, 1), ("mac", 0, 3, 5), ("mul", 2, 0)), (7, 6, 4)),
    (4, 0, (("mul", 0, 1), ("mul", 2, 3), ("add", 4, 5)), (6,)),
    (2, 0, (("add", 0, 1), ("sub", 0, 1)), (2, 3)),
    (4, 0, (("add", 0, 2), ("add", 1, 3)), (4, 5)),
    (2, 2, (("scale", 0, 1), ("mac", 1, 2, 0), ("addc", 3, 0), ("csub", 4, 1), ("subc", 5, 0)), (6, 5, 4)),
    (1, 1, (("const", 0), ("mul", 0, 1), ("mul", 2, 2), ("mul", 3, 3)), (4, 1)),
    (2, 0, (("neg", 0), ("neg", 2)), (1, 3, 0)),
    (3, 0, (("mul", 0, 1), ("mac", 1, 2, 3), ("mac", 0, 2, 4), ("mac", 0, 0, 5)), (6,)),
    (3, 1, (("mul", 0, 1), ("sub", 2, 3), ("scale", 0, 0), ("add", 4, 5), ("add", 5, 6)), (6, 7)),
    (3, 2, (("scale", 1, 1), ("scale", 0, 0), ("add", 3, 4), ("mul", 2, 2), ("sub", 5, 6), ("sub", 6, 7)), (7, 8)),
    (3, 2, (("scale", 1, 1), ("add", 0, 3), ("mul", 2, 2), ("sub", 4, 5)), (6,)),
    # the middle product of a tensor used early: it must stay where it is
    (4, 0, (("mul", 0, 3), ("mac", 1, 2, 4), ("neg", 5), ("mul", 0, 2), ("mul", 1, 3), ("add", 6, 7)), (9, 8, 5)),
)


@pytest.mark.parametrize("domain", list(Domain))
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_equal_integers_also_in_place(number: int, domain: Domain) -> None:
    inputs, scalars, instructions, results = PROGRAMS[number]
    for n in SIZES:
        ring = ring_of(n)
        params = (inputs, scalars, instructions, results, domain)
        xs, ss = random_rows(ring, inputs, n, n + number), random_rows(ring, scalars, 1, number)
        registers = expected(ring, instructions, domain, xs, ss)
        wanted = [registers[r] for r in results]
        assert [o.tolist() for o in run(ring, params, xs, ss)] == wanted
        if n > 128:
            continue
        for shift in range(inputs):
            shared = {k: (k + shift) % inputs for k in range(min(len(results), inputs))}
            assert [o.tolist() for o in run(ring, params, xs, ss, shared)] == wanted, f"outputs over inputs {shared}"


def opcodes(inputs: int, instructions: Instructions, results: tuple[int, ...], scalars: int = 0) -> list[int]:
    table = program(256, inputs, scalars, instructions, results, Domain.NTT).direct
    at = code.HEADER_WORDS
    return [int(table[at + code.INSTRUCTION_WORDS * k]) for k in range(int(table[0]))]


def test_known_shapes_become_one_instruction() -> None:
    assert opcodes(4, TENSOR, (4, 6, 7)) == [code.TENSOR]
    assert opcodes(4, (("mul", 0, 1), ("mac", 2, 3, 4)), (5,)) == [code.DOT2]
    assert opcodes(4, (("mul", 0, 1), ("mul", 2, 3), ("add", 4, 5)), (6,)) == [code.DOT2]
    assert opcodes(3, (("mul", 0, 1), ("sub", 2, 3)), (4,)) == [code.SUB_MUL]
    assert opcodes(3, (("mul", 0, 1), ("sub", 3, 2)), (4,)) == [code.MUL, code.SUB], "not what SUB_MUL computes"
    assert opcodes(2, (("scale", 0, 0), ("add", 2, 1)), (3,), 1) == [code.SCALE_ADD]
    assert opcodes(2, (("scale", 0, 0), ("add", 2, 2)), (3,), 1) == [code.SCALE, code.ADD]
    assert opcodes(2, (("add", 0, 1), ("neg", 0)), (2,)) == [code.ADD], "a value nobody reads is not computed"
    # the inner product is a result of its own: it cannot vanish into the sum
    assert opcodes(4, (("mul", 0, 1), ("mac", 2, 3, 4)), (4, 5)) == [code.MUL, code.MAC]


def test_simple_programs_need_no_scratch() -> None:
    for inputs, instructions, results in (
        (2, (("add", 0, 1),), (2,)),
        (4, TENSOR, (4, 6, 7)),
        (3, (("mac", 0, 1, 2),), (3,)),
    ):
        assert program(4096, inputs, 0, instructions, results, Domain.NTT).words == 0


def test_registers_are_reused() -> None:
    chain: Instructions = tuple(("mul", k, k) for k in range(30))
    made = program(4096, 1, 0, chain, (30,), Domain.NTT)
    block = int(made.direct[1])
    assert made.words <= 2 * block


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ((1, 0, (("add", 0, 1),), (1,), Domain.COEFF), "instruction 0 names operand 1"),
        ((1, 0, (("power", 0, 3),), (1,), Domain.COEFF), "malformed"),
        ((1, 0, (("neg", 0),), (2,), Domain.COEFF), "output registers"),
        ((1, 0, (("neg", 0),), (1,), "elsewhere"), "is no domain"),
        ((1, 0, (("neg", 0),)), "parameters"),
    ],
)
def test_malformed_programs_are_refused(params: tuple[Any, ...], message: str) -> None:
    ring = RingSpec(8, (17,))
    unit = ExecUnit("elementwise", ring, params, (Operand(0, 0, 8),), (), (Operand(1, 0, 8),))
    with pytest.raises(KernelOperandError, match=message):
        BACKEND.compile(unit)


def test_operands_of_the_wrong_size_are_refused() -> None:
    ring = RingSpec(8, (17,))
    for inputs, outputs in (((7,), (8,)), ((8,), (9,)), ((8, 8), (8,)), ((8,), ())):
        unit = ExecUnit(
            "elementwise",
            ring,
            (1, 0, (("neg", 0),), (1,), Domain.NTT),
            tuple(Operand(k, 0, w) for k, w in enumerate(inputs)),
            (),
            tuple(Operand(5 + k, 0, w) for k, w in enumerate(outputs)),
        )
        with pytest.raises(KernelOperandError):
            BACKEND.compile(unit)
