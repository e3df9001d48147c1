"""How each built-in operation is executed. A handler gets the operation, its operand values and the machine, and returns the value of the result
(a tuple for several results).

Ciphertexts are lazy: nothing here computes; the whole program becomes one graph that is scheduled when the results are realized.
The slot count of a ciphertext always equals the frame of its layout, so both agree on what a rotation step means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ren.errors import CapacityError, EncodingError, ProgramInputError, ProgramRunError
from ren.program import _xdsl
from ren.program.chain import number_of
from ren.program.layout import Layout
from ren.program.literals import Named, decode
from ren.program.machine import Machine, Many, each, unzip
from ren.program.packing import pack, to_array
from ren.program.requirements import span_steps, text_property
from ren.program.torch_calls import frontend
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.messages import encode_constant, encode_operand
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale

Values = tuple[Any, ...]


def _attributes(op: Operation) -> dict[str, Any]:
    return {name: decode(a) for name, a in op.properties.items()}


# -- references and public work --------------------------------------------------------------------------------------


def material(op: Operation, operands: Values, machine: Machine) -> Any:
    return _symbol(op, machine, "material")


def resource(op: Operation, operands: Values, machine: Machine) -> Any:
    return _symbol(op, machine, "resource")


def _symbol(op: Operation, machine: Machine, what: str) -> Any:
    """The bound object itself, or what the resolver makes of it, once per run."""
    symbol = text_property(op, "symbol") or ""
    key = what, symbol
    if key not in machine.bound_symbols:
        workspace = machine.workspace
        binding = workspace[what + "s"][symbol]
        resolver = workspace.get(what + "_resolver")
        kind = text_property(op, "kind")
        machine.bound_symbols[key] = binding if resolver is None else resolver(symbol, kind, binding, workspace)
    return machine.bound_symbols[key]


def constant(op: Operation, operands: Values, machine: Machine) -> Any:
    return decode(op.properties["value"], named=_resolve)


def mask(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    frame = at["frame"] if "frame" in at else machine.engine.num_slots  # noqa: SIM401 - the engine may be absent
    values = np.zeros(frame)
    values[at["start"] : at["stop"]] = 1.0
    return values


def diagonal(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    matrix = to_array(operands[0])
    if at["form"] == "right":
        matrix = matrix.T
    rows, columns, frame = at["rows"], at["columns"], at["frame"]
    if matrix.shape != (rows, columns):
        # As the user writes it: x @ W has its inputs first.
        needed = (columns, rows) if at["form"] == "right" else (rows, columns)
        raise ProgramInputError(
            f"a matrix of shape {needed} is needed ({columns} inputs, {rows} outputs), got shape {tuple(np.shape(operands[0]))}",
            subject="matrix",
        )
    j = np.arange(rows)
    source = (j - at["index"]) % frame
    inside = source < columns
    values = np.zeros(frame, np.result_type(matrix, np.float64))
    values[j[inside]] = matrix[j[inside], source[inside]]
    return np.roll(values, at.get("roll", 0))


def slot_share(op: Operation, operands: Values, machine: Machine) -> Any:
    return 1.0 / machine.engine.num_slots


def reciprocal(op: Operation, operands: Values, machine: Machine) -> Any:
    array = to_array(operands[0])
    if not np.all(array):
        where = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(array == 0)[0])}"
        raise ZeroDivisionError(f"the divisor is 0{where}")
    return 1.0 / array


def negate_public(op: Operation, operands: Values, machine: Machine) -> Any:
    return -to_array(operands[0])


def roll_public(op: Operation, operands: Values, machine: Machine) -> Any:
    array = to_array(operands[0])
    return array if array.size == 1 else np.roll(array, _attributes(op)["shift"], axis=-1)


def torch_call(op: Operation, operands: Values, machine: Machine) -> Any:
    target = text_property(op, "ren.call.target") or ""
    kind = text_property(op, "ren.call.kind") or ""
    arguments, keywords = op.properties.get("ren.call.arguments"), op.properties.get("ren.call.keywords")
    values = [_outside(v) for v in operands]
    args = tuple(values) if arguments is None else tuple(decode(arguments, values.__getitem__, _resolve))
    kwargs = {} if keywords is None else decode(keywords, values.__getitem__, _resolve)
    handler = (machine.workspace.get("torch_handlers") or {}).get(target)
    if handler is not None:
        return handler(*args, **kwargs)
    found = frontend()
    if found is None or not found.is_audited(kind, target):
        raise ProgramRunError(f"{target} is not audited and has no handler", subject=target)
    return found.call(kind, target, args, kwargs)


def _resolve(named: Named) -> Any:
    found = frontend()
    if found is None:
        raise ProgramRunError(f"{named.kind} {named.name} needs the torch frontend", subject=named.name)
    return found.resolve(named)


def _outside(value: Any) -> Any:
    """A value as handlers from outside see it."""
    if type(value) is not Many:
        return value
    from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch

    return (PlaintextBatch if all(isinstance(i, Plaintext) for i in value.items) else CiphertextBatch)(
        value.shape, value.items
    )


# -- plaintexts ------------------------------------------------------------------------------------------------------


def prepare_add(op: Operation, operands: Values, machine: Machine) -> Any:
    return _prepare(op, operands, machine)


def prepare_multiply(op: Operation, operands: Values, machine: Machine) -> Any:
    return _prepare(op, operands, machine)


@contextmanager
def _public_input() -> Iterator[None]:
    """What a call brought and no level can hold is a fault of the call, not of the program."""
    try:
        yield
    except (CapacityError, EncodingError) as error:
        raise ProgramInputError(f"public data cannot be encoded: {error}", subject="public") from error


@_public_input()
def _prepare(op: Operation, operands: Values, machine: Machine) -> Any:
    public, ciphertext = operands
    state = machine.operand_state(op, 1)
    one = ciphertext.items[0] if type(ciphertext) is Many else ciphertext
    layout = state.layout if state.layout is not None else Layout((one.slots,), one.slots)
    if _is_plaintext(public):
        return each(lambda p: _own_plaintext(p, layout, one.level, machine), public)
    if text_property(op, "scale_mode") == "default_scale":
        scale = machine.engine.params.scale_at(one.level)
    else:
        scale = one.scale
    return encode_public(public, layout, one.level, scale, machine)


def _is_plaintext(value: Any) -> bool:
    return isinstance(value.items[0] if type(value) is Many and value.items else value, Plaintext)


def _own_plaintext(p: Plaintext, layout: Layout, level: int, machine: Machine) -> Plaintext:
    """A plaintext that the caller encoded, at the deeper of its level and the ciphertext's, with its slots read as the frame of the ciphertext."""
    engine = machine.engine
    frame = layout.resolve(engine.num_slots).frame
    assert frame is not None
    if p.poly is None:
        return replace(encode_constant(engine, p.value, level, engine.params.scale_at(level)), slots=frame)
    engine.require_params(p.params_id, "prepare")
    if p.level < level:
        p = replace(p, poly=p.poly.mod_drop(level - p.level), level=level)
    if p.slots > frame:
        if not _repeats(p, frame, engine.num_slots):
            raise ProgramInputError(
                f"a plaintext of {p.slots} slots meets a ciphertext whose frame of {frame} slots is repeated, and does not repeat",
                subject="plaintext",
                hint=f"Encode it with slots={frame}",
            )
        p = replace(p, slots=frame, occupied=None)
    elif p.slots < frame and p.slots > 1:
        raise ProgramInputError(
            f"a plaintext of {p.slots} slots meets a ciphertext of frames of {frame} slots, where it would be repeated",
            subject="plaintext",
            hint=f"Encode it with slots={frame}; slots=1 is one number for all",
        )
    return p


def _repeats(p: Plaintext, frame: int, slots: int) -> bool:
    """Whether the slots repeat with this period: then, and only then, all coefficients but every (slots/frame)-th are zero."""
    assert p.poly is not None
    first = p.poly.limbs(0, 1).intt().residues()[0]
    stray = np.ones(first.size, bool)
    stray[:: slots // frame] = False
    return not first[stray].any()


def encode_public(value: Any, layout: Layout, level: int, scale: Scale, machine: Machine) -> Any:
    """Public data as a plaintext (a batch for leading axes), packed to meet a ciphertext of `layout`."""
    engine = machine.engine
    if _is_number(value) and layout.is_dense:
        frame = layout.resolve(engine.num_slots).frame
        assert frame is not None
        return replace(encode_constant(engine, value, level, scale), slots=frame)
    batch, rows, frame = pack(value, layout, engine.num_slots)
    plaintexts = tuple(encode_operand(engine, row, level, scale, frame) for row in rows)
    return Many(batch, plaintexts) if batch else plaintexts[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) or (getattr(value, "ndim", None) == 0 and hasattr(value, "item"))


@_public_input()
def encode(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    params = machine.engine.params
    symbolic = at.get("scale")
    scale = params.scale_at(at["level"]) if symbolic is None else number_of(symbolic, params)
    assert scale is not None
    return encode_public(operands[0], at.get("layout", Layout()), at["level"], scale, machine)


# -- ciphertexts -----------------------------------------------------------------------------------------------------


def to_ntt(op: Operation, operands: Values, machine: Machine) -> Any:
    """The scheduler places transforms over the whole graph; the operation only says where the program wants them."""
    return operands[0]


from_ntt = to_ntt


def negate(op: Operation, operands: Values, machine: Machine) -> Any:
    return each(machine.engine.negate, *operands)


def add(op: Operation, operands: Values, machine: Machine) -> Any:
    return each(machine.engine.add, *operands)


def subtract(op: Operation, operands: Values, machine: Machine) -> Any:
    return each(machine.engine.sub, *operands)


def _check_axes(op: Operation, operands: Values, machine: Machine) -> None:
    """Refuse public data that would make a batch of a value declared without batch axes: reductions that follow would not run over it."""
    if type(operands[1]) is Many and type(operands[0]) is not Many and machine.operand_state(op, 0).batch == "none":
        raise ProgramInputError(
            f"public data has the axes {operands[1].shape} beyond those of the encrypted value, which is declared without batch axes",
            subject="public",
            hint='Declare encrypted(batch_mode="any"), or pass data of the shape of one value',
        )


def add_plaintext(op: Operation, operands: Values, machine: Machine) -> Any:
    _check_axes(op, operands, machine)
    return each(machine.engine.add, *operands)


def subtract_plaintext(op: Operation, operands: Values, machine: Machine) -> Any:
    _check_axes(op, operands, machine)
    return each(machine.engine.sub, *operands)


def multiply(op: Operation, operands: Values, machine: Machine) -> Any:
    engine = machine.engine
    return each(lambda x, y: engine.multiply(x, y, relinearize=False, rescale=False), *operands)


def square(op: Operation, operands: Values, machine: Machine) -> Any:
    return multiply(op, (operands[0], operands[0]), machine)


def multiply_plaintext(op: Operation, operands: Values, machine: Machine) -> Any:
    _check_axes(op, operands, machine)
    return each(lambda x, p: _times_plaintext(machine, x, p), *operands)


def _times_plaintext(machine: Machine, x: Any, p: Plaintext) -> Any:
    if p.level > x.level:  # a caller's plaintext decides: primes are dropped, scales stay exact
        x = machine.engine.mod_drop(x, p.level - x.level)
    return machine.engine.multiply(x, p, rescale=False)


def add_scalar(op: Operation, operands: Values, machine: Machine) -> Any:
    value = decode(op.properties["value"])
    return each(lambda x: machine.engine.add(x, value), operands[0])


def multiply_scalar(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    engine, value = machine.engine, at["value"]

    def times(x: Ciphertext) -> Any:
        symbolic = at.get("scale")
        scale = engine.params.scale_at(x.level) if symbolic is None else number_of(symbolic, engine.params)
        assert scale is not None
        factor = replace(encode_constant(engine, value, x.level, scale), slots=x.slots)
        return engine.multiply(x, factor, rescale=False)

    return each(times, operands[0])


def multiply_integer(op: Operation, operands: Values, machine: Machine) -> Any:
    value = decode(op.properties["value"])
    return each(lambda x: machine.engine.mul(x, value), operands[0])


def relinearize(op: Operation, operands: Values, machine: Machine) -> Any:
    if op in machine.fused:
        return operands[0]
    key = machine.keys.relinearization
    return each(lambda x: machine.engine.relinearize(x, key=key), operands[0])


def rescale(op: Operation, operands: Values, machine: Machine) -> Any:
    engine = machine.engine
    source = _xdsl.operands(op)[0].owner
    if isinstance(source, Operation) and source in machine.fused:
        key = machine.keys.relinearization
        return each(lambda x: engine.relinearize(x, rescale=True, key=key), operands[0])
    if text_property(op, "condition") == "plaintext_scale_not_one":
        return each(lambda x, p: x if p.scale == 1 else engine.rescale(x), *operands)
    return each(engine.rescale, operands[0])


def mod_switch(op: Operation, operands: Values, machine: Machine) -> Any:
    levels = decode(op.properties["levels"])
    return each(lambda x: machine.engine.mod_drop(x, levels), operands[0])


def align(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    symbolic = at.get("scale")
    scale = None if symbolic is None else number_of(symbolic, machine.engine.params)
    return each(lambda x: machine.engine.adjust(x, at["level"], scale), operands[0])


def meet(op: Operation, operands: Values, machine: Machine) -> Any:
    from ren.schemes.ckks.alignment import for_sum

    engine = machine.engine

    def both(x: Ciphertext, y: Ciphertext) -> tuple[Any, Any]:
        plan = for_sum(engine.params, (x.level, x.scale), (y.level, y.scale), "meet")
        return engine.adjust(x, plan.level, plan.scale), engine.adjust(y, plan.level, plan.scale)

    return unzip(each(both, *operands), 2)


def reinterpret_scale(op: Operation, operands: Values, machine: Machine) -> Any:
    scale = number_of(decode(op.properties["scale"]), machine.engine.params)
    # The message is multiplied by old / new, so its old bound says nothing.
    return each(lambda x: replace(x, scale=scale, bound=math.inf), operands[0])


def rotate(op: Operation, operands: Values, machine: Machine) -> Any:
    shift, keys = decode(op.properties["shift"]), machine.workspace.get("evaluation_keys")
    return each(lambda x: machine.engine.rotate(x, shift, keys=keys), operands[0])


def rotate_group(op: Operation, operands: Values, machine: Machine) -> Any:
    shifts, keys = decode(op.properties["shifts"]), machine.workspace.get("evaluation_keys")
    return unzip(each(lambda x: machine.engine.rotate_many(x, shifts, keys=keys), operands[0]), len(shifts))


def conjugate(op: Operation, operands: Values, machine: Machine) -> Any:
    return each(lambda x: machine.engine.conjugate(x, keys=machine.keys), operands[0])


def sum_slots(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    engine, keys = machine.engine, machine.workspace.get("evaluation_keys")

    def total(x: Ciphertext) -> Ciphertext:
        count = at.get("count", x.slots)
        whole = count == x.slots and at.get("stride", 1) == 1
        for step in span_steps(at.get("stride", 1), count):
            x = engine.add(x, engine.rotate(x, step, keys=keys))
        return replace(x, slots=1, occupied=None) if whole else x

    return each(total, operands[0])


def polynomial(op: Operation, operands: Values, machine: Machine) -> Any:
    at = _attributes(op)
    keys = machine.workspace.get("evaluation_keys")
    key = None if keys is None else keys.relinearization
    basis = at.get("basis", "power")
    return each(lambda x: machine.engine.polyval(x, at["coefficients"], basis=basis, key=key), operands[0])


def relayout(op: Operation, operands: Values, machine: Machine) -> Any:
    layout = machine.encrypted(op.results[0]).layout
    assert layout is not None
    frame = layout.resolve(machine.engine.num_slots).frame
    return each(lambda x: replace(x, slots=frame, occupied=None), operands[0])


def assume_bound(op: Operation, operands: Values, machine: Machine) -> Any:
    bound = abs(decode(op.properties["bound"]))
    return each(lambda x: machine.engine.assume_bound(x, bound), operands[0])
