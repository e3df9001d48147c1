"""The loop that runs a plan: resolve a unit's operands, call its kernel, next unit."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from numba import types

from ren_backend_cpu.kernels.emit import caller, load, stack_words, store
from ren_backend_cpu.kernels.jit import called_from_python

_call1 = caller(1)

#: Words of a plan's header: units, longest row, address of the code table, address of the operand table.
HEADER_WORDS = 4


@called_from_python(types.int64, types.int64)
def drive(plan, slots):
    """plan: address of a header. slots: address of the slot addresses; slot 0 holds 0, so that its operands are integers.

    code: per unit (kernel address, first operand, operands); operands: (slot, byte offset). Nothing in a plan is written, so
    several threads may run one plan, each with slots of its own. This loop is serial: a parallel launch would go around the
    limb loops inside the kernels, one per unit.
    """
    units = load(plan, 0)
    row = stack_words(load(plan, 1))
    code = load(plan, 2)
    table = load(plan, 3)
    for u in range(units):
        operand = table + 16 * load(code, 3 * u + 1)
        for k in range(load(code, 3 * u + 2)):
            store(row, k, load(slots, load(operand, 2 * k)) + load(operand, 2 * k + 1))
        _call1(load(code, 3 * u), row)
