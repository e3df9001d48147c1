"""The loops that run a plan: resolve a unit's operands, call its kernel, next unit; alone, or with a team of threads.

A plan is a list of phases. A phase calls one kernel over a range of items (limbs), which are independent of each other, so any split of the range
computes the same words. The thread that runs the plan publishes a phase in the team's state and takes items like everybody else; it waits
only for items that others have taken. A team without helpers, or with late ones, is therefore slower and never wrong.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from numba import types

from ren_backend_cpu.kernels.atomic import (
    add_release,
    exchange_if,
    fence,
    give_way,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
)
from ren_backend_cpu.kernels.emit import caller, load, stack_words, store
from ren_backend_cpu.kernels.jit import called_from_python, compiled

_call1 = caller(1)

#: Words of a plan's header: phases, longest row, address of the phase table, address of the operand table.
HEADER_WORDS = 4

#: Words of a phase: kernel address, first operand, operands, items, whether a team shares them.
PHASE_WORDS = 5
#: What a kernel's row has after its operands: first item, end of the items, scratch of the thread that runs them.
RANGE_WORDS = 3

# -- a team's state, one word per cache line -------------------------------------------------------------------------------------
#: Serial number of the phase << ITEM_BITS | next item. It changes with every phase and every taking, and never comes back.
CLAIM = 0
#: How many items of the phase are done.
DONE = 16
#: The phase: address of its row, of the operand table, of the slots; its items; how many threads share them; words for a row.
PHASE, OPERANDS, SLOTS, ITEMS, SHARING, ROW = range(32, 38)
#: Not 0: helpers leave.
STOP = 48
#: Per helper the address of its memory: a row, then the scratch that kernels ask for per thread.
MEMORY = 64

ITEM_BITS = 24
_ITEM_MASK = (1 << ITEM_BITS) - 1
#: Looks at a word before a waiting thread offers its core to others.
_PATIENCE = 2000


@compiled
def _resolve(row, phase, table, slots):
    """The addresses of a phase's operands, and the scratch of the thread that owns the plan. Returns how many operands."""
    operand, count = table + 16 * load(phase, 1), load(phase, 2)
    for k in range(count):
        store(row, k, load(slots, load(operand, 2 * k)) + load(operand, 2 * k + 1))
    store(row, count + 2, load(slots, load(operand, 2 * count)) + load(operand, 2 * count + 1))
    return count


@compiled
def _call(phase, row, count, first, stop):
    store(row, count, first)
    store(row, count + 1, stop)
    _call1(load(phase, 0), row)


@compiled
def _call_part(phase, row, count, items, first, size):
    """Items are taken from the end: the special limbs of a key switch lie there and take longest, which is best done first."""
    _call(phase, row, count, items - first - size, items - first)


@compiled
def _chunk(items, first, sharing):
    """How many items to take: large pieces first, single ones last, so that all threads end together."""
    return max(1, (items - first) // (2 * sharing))


@compiled
def row_words(longest):
    """Words that a helper's memory has for a row, so that what follows is aligned as well as the memory."""
    return (longest + 7) // 8 * 8


@called_from_python(types.int64, types.int64)
def drive(plan, slots):
    """plan: address of a header. slots: address of the slot addresses; slot 0 holds 0, so that its operands are integers.

    operands: (slot, byte offset), those of each phase followed by its scratch. Nothing in a plan is written, so several threads may run one
    plan, each with slots of its own.
    """
    row = stack_words(load(plan, 1) + RANGE_WORDS)
    phases, table = load(plan, 2), load(plan, 3)
    for p in range(load(plan, 0)):
        phase = phases + 8 * PHASE_WORDS * p
        _call(phase, row, _resolve(row, phase, table, slots), 0, load(phase, 3))


@called_from_python(types.int64, types.int64, types.int64, types.int64)
def drive_shared(plan, slots, team, sharing):
    """`drive` by the owner of a team. sharing: threads that may take part, the owner included."""
    longest = load(plan, 1) + RANGE_WORDS
    row = stack_words(longest)
    phases, table = load(plan, 2), load(plan, 3)
    serial = load_acquire(team, CLAIM) >> ITEM_BITS
    for p in range(load(plan, 0)):
        phase = phases + 8 * PHASE_WORDS * p
        count, items = _resolve(row, phase, table, slots), load(phase, 3)
        if load(phase, 4) == 0:
            _call(phase, row, count, 0, items)
            continue
        # Helpers read the description without a lock. They believe it only if the claim is unchanged after that, so it changes first.
        serial += 1
        store_relaxed(team, CLAIM, serial << ITEM_BITS | _ITEM_MASK)
        fence()
        store_relaxed(team, PHASE, phase)
        store_relaxed(team, OPERANDS, table)
        store_relaxed(team, SLOTS, slots)
        store_relaxed(team, ITEMS, items)
        store_relaxed(team, SHARING, sharing)
        store_relaxed(team, ROW, row_words(longest))
        store_relaxed(team, DONE, 0)
        serial += 1
        store_release(team, CLAIM, serial << ITEM_BITS)
        done = 0
        while True:
            claim = load_acquire(team, CLAIM)
            first = claim & _ITEM_MASK
            if first >= items:
                break
            size = _chunk(items, first, sharing)
            if exchange_if(team, CLAIM, claim, claim + size):
                _call_part(phase, row, count, items, first, size)
                done += size
        patience = _PATIENCE
        while load_acquire(team, DONE) + done < items:
            pause()
            patience -= 1
            if patience <= 0:
                give_way()


@called_from_python(types.int64, types.int64, types.int64)
def help_team(team, helper, looks):
    """Take items of whatever phase the team's owner publishes, until there was nothing to do for `looks` looks, or STOP."""
    idle = 0
    while idle < looks and load_acquire(team, STOP) == 0:
        claim = load_acquire(team, CLAIM)
        first = claim & _ITEM_MASK
        phase, table, slots = load_relaxed(team, PHASE), load_relaxed(team, OPERANDS), load_relaxed(team, SLOTS)
        items, sharing = load_relaxed(team, ITEMS), load_relaxed(team, SHARING)
        row, scratch = load_relaxed(team, MEMORY + helper), 8 * load_relaxed(team, ROW)
        fence()
        size = _chunk(items, first, sharing)
        # What was read is this phase's if the claim has not changed; only then may memory of the plan be touched: its owner waits now.
        if first < items and exchange_if(team, CLAIM, claim, claim + size):
            count = _resolve(row, phase, table, slots)
            store(row, count + 2, row + scratch)
            _call_part(phase, row, count, items, first, size)
            add_release(team, DONE, size)
            idle = 0
        else:
            idle += 1
            pause()
            if idle > _PATIENCE:
                give_way()
