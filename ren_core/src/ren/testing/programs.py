"""Element-wise programs for the backend kit."""

from __future__ import annotations

from typing import Any

import numpy as np

#: (inputs, scalars, instructions, output registers), as in the params of the `elementwise` kernel.
Program = tuple[int, int, tuple[tuple[Any, ...], ...], tuple[int, ...]]

#: Every opcode alone, then fused programs.
PROGRAMS: tuple[Program, ...] = (
    (2, 0, (("add", 0, 1),), (2,)),
    (2, 0, (("sub", 0, 1),), (2,)),
    (1, 0, (("neg", 0),), (1,)),
    (2, 0, (("mul", 0, 1),), (2,)),
    (1, 0, (("mul", 0, 0),), (1,)),
    (3, 0, (("mac", 0, 1, 2),), (3,)),
    (1, 1, (("scale", 0, 0),), (1,)),
    (1, 1, (("addc", 0, 0),), (1,)),
    (1, 1, (("subc", 0, 0),), (1,)),
    (1, 1, (("csub", 0, 0),), (1,)),
    (0, 1, (("const", 0),), (0,)),
    # the shapes that CKKS code fuses into: a product of ciphertexts (three outputs), 2 x x - 1, a sum of products with lazy accumulation at its worst
    (4, 0, (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3)), (4, 6, 7)),
    (1, 2, (("mul", 0, 0), ("scale", 1, 0), ("subc", 2, 1)), (3,)),
    (2, 0, (("mul", 0, 1), *(("mac", 0, 1, 2 + i) for i in range(39))), (41,)),
    # an input and a middle register as results; a register read by several instructions
    (2, 1, (("sub", 0, 1), ("neg", 2), ("add", 3, 3), ("csub", 4, 0), ("mul", 5, 2)), (0, 3, 6)),
    (3, 2, (("const", 0), ("mac", 0, 1, 3), ("addc", 4, 1), ("neg", 5), ("sub", 6, 2), ("scale", 7, 0)), (8, 4)),
)


def random_program(rng: np.random.Generator) -> Program:
    """A legal element-wise program with 1 to 4 inputs, 0 to 3 scalars and up to 12 instructions."""
    inputs, scalars = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    length = int(rng.integers(1, 13))
    instructions: list[tuple[Any, ...]] = []
    for position in range(length):
        last = inputs + position
        kinds = ("add", "sub", "neg", "mul", "mac") + (("scale", "addc", "subc", "csub", "const") if scalars else ())
        opcode = kinds[int(rng.integers(len(kinds)))]
        registers = [int(r) for r in rng.integers(0, last, 3)]
        scalar = int(rng.integers(scalars)) if scalars else 0
        shapes = {"neg": registers[:1], "mac": registers, "const": [scalar]}
        shapes |= dict.fromkeys(("add", "sub", "mul"), registers[:2]) | dict.fromkeys(
            ("scale", "addc", "subc", "csub"), [registers[0], scalar]
        )
        instructions.append((opcode, *shapes[opcode]))
    results = {inputs + length - 1, *(int(r) for r in rng.integers(0, inputs + length, int(rng.integers(0, 3))))}
    return inputs, scalars, tuple(instructions), tuple(sorted(results))
