"""The operations of the `ren` dialect and `torch.call`: one row each. Nothing about an operation is written down anywhere else.

Stages: `ren.semantic.*` says what a program means, with logical shapes; `ren.logical.*` says which operands are encrypted;
`ren.ckks.*` is what runs, with levels, scales and keys explicit. References and public work run at every stage.
"""

from __future__ import annotations

from typing import Any

from ren.program import cleartext, key_needs, noise_rules, parameter_checks, rules, semantic_rules
from ren.program.cleartext import ClearRule
from ren.program.noise_rules import NoiseRule
from ren.program.rows import Attr, Check, Needs, Row, Rule, Value

RELINEARIZE = "relinearize"
RESCALE = "rescale"
OBLIGATIONS = (RELINEARIZE, RESCALE)
CONDITIONS = ("always", "plaintext_scale_not_one")
SCALE_MODES = ("ciphertext_scale", "default_scale", "runtime_plaintext_scale")
BASES = ("power", "chebyshev")
MATMUL_FORMS = ("linear", "right")

_HANDLERS = "ren.program.handlers:"
_SOURCE = (Value("source", "encrypted"),)
_PAIR = (Value("lhs", "encrypted"), Value("rhs", "encrypted"))
_WITH_PLAINTEXT = (Value("source", "encrypted"), Value("plaintext", "plaintext"))
_MESSAGE = (Value("result", "message"),)
_PLAINTEXT = (Value("result", "plaintext"),)


# -- attributes ------------------------------------------------------------------------------------------------------

_SHIFT = Attr("shift", "int", meaning="places to the right, as torch.roll")
_DIMENSION = Attr("dimension", "int", required=False, meaning="axis; -1 is the last")
_KEEPDIM = Attr("keepdim", "int", required=False)
_COEFFICIENTS = (
    Attr("coefficients", "floats", meaning="from degree 0 up"),
    Attr("basis", "str", required=False, choices=BASES),
)
_RESCALE_CONDITION = Attr("rescale_condition", "str", required=False, choices=CONDITIONS)
_MARKS = (
    Attr("plaintext_prepared", "literal", required=False, meaning="set by insert-plaintext-preparation"),
    Attr(
        "multiply_ntt_transitions_inserted", "literal", required=False, meaning="set by insert-multiply-ntt-transitions"
    ),
    Attr("scale_mode", "str", required=False, choices=SCALE_MODES),
)

# -- references, public work, calls ----------------------------------------------------------------------------------

_REFERENCES = (
    Row(
        name="ren.material.ref",
        summary='Public data held in `workspace["materials"]` under `symbol`.',
        stage="reference",
        results=(Value("result", "any"),),
        attributes=(
            Attr("symbol", "str", required=False, meaning="needed to run"),
            Attr("kind", "str", required=False),
            Attr("descriptor", "dict", required=False, meaning="shape and dtype when it was captured"),
        ),
        handler=_HANDLERS + "material",
    ),
    Row(
        name="ren.resource.ref",
        summary='An object of `workspace["resources"]` under `symbol`.',
        stage="reference",
        results=(Value("result", "any"),),
        attributes=(
            Attr("symbol", "str", required=False, meaning="needed to run"),
            Attr("kind", "str", required=False),
        ),
        pure=False,
        handler=_HANDLERS + "resource",
    ),
    Row(
        name="ren.constant",
        summary="A literal.",
        stage="reference",
        results=_MESSAGE,
        attributes=(Attr("value", "literal"),),
        rule=rules.constant,
        handler=_HANDLERS + "constant",
    ),
    Row(
        name="ren.public.mask",
        summary="1 in slots start..stop-1 of each frame, 0 elsewhere; without `frame`, of the whole slot vector.",
        stage="reference",
        results=_MESSAGE,
        attributes=(
            Attr("start", "int", least=0),
            Attr("stop", "int", least=1),
            Attr("frame", "int", required=False, least=1),
        ),
        rule=rules.mask,
        handler=_HANDLERS + "mask",
        cost="public",
    ),
    Row(
        name="ren.public.diagonal",
        summary="Generalised diagonal `index` of a matrix for the diagonal method, rolled by `roll`: slot j holds W[j, (j - index) mod frame], 0 outside the matrix.",
        stage="reference",
        operands=(Value("matrix", "message"),),
        results=_MESSAGE,
        attributes=(
            Attr("index", "int", least=0),
            Attr("rows", "int", least=1, meaning="outputs"),
            Attr("columns", "int", least=1, meaning="inputs"),
            Attr("frame", "int", least=1),
            Attr("form", "str", choices=MATMUL_FORMS),
            Attr("roll", "int", required=False),
        ),
        rule=rules.diagonal,
        handler=_HANDLERS + "diagonal",
        cost="public",
    ),
    Row(
        name="ren.public.slot_share",
        summary="1 / number of slots of the engine: what turns a sum over all slots into their mean.",
        stage="reference",
        results=_MESSAGE,
        rule=rules.slot_share,
        handler=_HANDLERS + "slot_share",
        cost="public",
    ),
    Row(
        name="ren.public.reciprocal",
        summary="1 / x of public data.",
        stage="reference",
        operands=(Value("source", "message"),),
        results=_MESSAGE,
        rule=rules.reciprocal,
        handler=_HANDLERS + "reciprocal",
        cost="public",
    ),
    Row(
        name="ren.public.negate",
        summary="-x of public data.",
        stage="reference",
        operands=(Value("source", "message"),),
        results=_MESSAGE,
        rule=rules.moved_message,
        handler=_HANDLERS + "negate_public",
        cost="public",
    ),
    Row(
        name="ren.public.roll",
        summary="Public data moved `shift` places to the right along its last axis, around; a single element stays.",
        stage="reference",
        operands=(Value("source", "message"),),
        results=_MESSAGE,
        attributes=(_SHIFT,),
        rule=rules.moved_message,
        handler=_HANDLERS + "roll_public",
        cost="public",
    ),
    Row(
        name="torch.call",
        summary="A call that was kept as written: function, method or module `ren.call.target` with `ren.call.arguments` and `ren.call.keywords`.",
        stage="call",
        operands=(Value("operands", "any", many=True),),
        results=(Value("results", "any", many=True),),
        attributes=(
            Attr("ren.call.kind", "str", choices=("function", "method", "module")),
            Attr("ren.call.target", "str", required=False, meaning="needed to run"),
            Attr(
                "ren.call.arguments",
                "list",
                required=False,
                meaning="literals; `#ren.operand<i>` is operand i. Absent: the operands in order",
            ),
            Attr("ren.call.keywords", "dict", required=False),
            Attr("ren.call.reason", "str", required=False, meaning="why the frontend gave it no encrypted meaning"),
        ),
        pure=False,
        handler=_HANDLERS + "torch_call",
        cost="public",
    ),
)


# -- semantic and logical --------------------------------------------------------------------------------------------

#: name -> (meaning, rule, attributes) of operations on one encrypted value.
_UNARY: dict[str, tuple[str, Rule, tuple[Attr, ...]]] = {
    "negate": ("-x.", semantic_rules.negate, ()),
    "square": ("x * x.", semantic_rules.square, ()),
    "power": ("x ** exponent.", semantic_rules.power, (Attr("exponent", "int", least=1),)),
    "conjugate": ("Complex conjugate.", semantic_rules.negate, ()),
    "roll": ("torch.roll along one axis.", semantic_rules.roll, (_SHIFT, _DIMENSION)),
    "sum": ("Sum over all axes, or over `dimension` of a vector.", semantic_rules.sum_, (_DIMENSION, _KEEPDIM)),
    "mean": ("Mean over all axes, or over `dimension` of a vector.", semantic_rules.mean, (_DIMENSION, _KEEPDIM)),
    "slice": (
        "Elements start..stop-1 of a vector; with `drop` (one element) a scalar.",
        semantic_rules.slice_,
        (Attr("start", "int", least=0), Attr("stop", "int", least=1), Attr("drop", "int", required=False)),
    ),
    "reshape": (
        "The same elements in row-major order under another shape.",
        semantic_rules.reshape,
        (Attr("shape", "ints", least=1),),
    ),
    "polynomial": ("A polynomial with public coefficients.", semantic_rules.polynomial, _COEFFICIENTS),
    "assume_bound": (
        "x, whose absolute values the caller promises to stay within `bound`.",
        semantic_rules.assume_bound,
        (Attr("bound", "float"),),
    ),
}
_BINARY: dict[str, tuple[str, Rule]] = {
    "add": ("x + y.", semantic_rules.add),
    "subtract": ("x - y.", semantic_rules.add),
    "multiply": ("x * y.", semantic_rules.multiply),
}
_FORM = Attr("form", "str", choices=MATMUL_FORMS, meaning="linear: W[out, in] x; right: x W[in, out]")


def _semantic() -> list[Row]:
    operands = (Value("lhs", "value"), Value("rhs", "value"))
    rows = [
        Row(name=f"ren.semantic.{n}", summary=s, stage="semantic", operands=operands, rule=r)
        for n, (s, r) in _BINARY.items()
    ]
    rows += [
        Row(name=f"ren.semantic.{n}", summary=s, stage="semantic", operands=_SOURCE, attributes=a, rule=r)
        for n, (s, r, a) in _UNARY.items()
    ]
    public = (Value("source", "encrypted"), Value("public", "public"))
    rows.append(
        Row(
            name="ren.semantic.divide",
            summary="x / y, y public.",
            stage="semantic",
            operands=public,
            rule=semantic_rules.divide,
        )
    )
    rows.append(
        Row(
            name="ren.semantic.matmul",
            summary="Product of an encrypted vector with a public matrix or vector.",
            stage="semantic",
            operands=(Value("source", "encrypted"), Value("matrix", "message")),
            attributes=(_FORM,),
            rule=semantic_rules.matmul,
        )
    )
    return rows


def _logical() -> list[Row]:
    secret, public = Value("lhs", "encrypted"), Value("rhs", "public")
    forms = {
        "encrypted_encrypted": _PAIR,
        "encrypted_public": (secret, public),
        "public_encrypted": (Value("lhs", "public"), Value("rhs", "encrypted")),
    }
    rows = [
        Row(name=f"ren.logical.{n}.{form}", summary=s, stage="logical", operands=operands, attributes=_MARKS, rule=r)
        for n, (s, r) in _BINARY.items()
        for form, operands in forms.items()
    ]
    rows += [
        Row(
            name=f"ren.logical.{n}.encrypted",
            summary=s,
            stage="logical",
            operands=_SOURCE,
            attributes=a + _MARKS[1:2],
            rule=r,
        )
        for n, (s, r, a) in _UNARY.items()
    ]
    rows.append(
        Row(
            name="ren.logical.divide.encrypted_public",
            summary="x / y.",
            stage="logical",
            operands=(secret, public),
            attributes=_MARKS,
            rule=semantic_rules.divide,
        )
    )
    rows.append(
        Row(
            name="ren.logical.matmul.encrypted_public",
            summary="Product of an encrypted vector with a public matrix or vector.",
            stage="logical",
            operands=(Value("source", "encrypted"), Value("matrix", "message")),
            attributes=(_FORM, *_MARKS),
            rule=semantic_rules.matmul,
        )
    )
    return rows


# -- CKKS ------------------------------------------------------------------------------------------------------------


def _ckks(
    name: str,
    summary: str,
    operands: tuple[Value, ...],
    rule: Rule,
    cost: str,
    *attributes: Attr,
    results: tuple[Value, ...] = (Value("result", "encrypted"),),
    obligations: tuple[str, ...] = (),
    needs: Needs | None = None,
    check: Check | None = None,
    noise: NoiseRule | None = noise_rules.keep,
    handler: str | None = "",
    clear: ClearRule = cleartext.same,
) -> Row:
    extra: dict[str, Any] = {} if needs is None else {"needs": needs}
    return Row(
        name=f"ren.ckks.{name}",
        summary=summary,
        stage="ckks",
        operands=operands,
        results=results,
        attributes=attributes,
        rule=rule,
        obligations=obligations,
        check=check,
        noise=noise,
        handler=_HANDLERS + name.replace(".", "_") if handler == "" else handler,
        clear=clear,
        cost=cost,
        **extra,
    )


def _prepare_rows() -> list[Row]:
    rows = []
    for use, rule in (("add", rules.prepare_add), ("multiply", rules.prepare_multiply)):
        for source in ("message", "plaintext", "static"):
            kind = "plaintext" if source == "plaintext" else "message"
            rows.append(
                _ckks(
                    f"prepare.{use}.{source}",
                    f"A {source} made ready to {use} to the ciphertext: packed in its layout, at its level, with the scale of `scale_mode`.",
                    (Value("public", kind), Value("ciphertext", "encrypted")),
                    rule,
                    "encode",
                    Attr("operation", "str", choices=(use,)),
                    Attr("source_role", "str", choices=(source,)),
                    Attr("scale_mode", "str", choices=SCALE_MODES),
                    results=_PLAINTEXT,
                    check=parameter_checks.public_fits_sum if use == "add" else parameter_checks.public_fits,
                    noise=noise_rules.encoded,
                    handler=_HANDLERS + f"prepare_{use}",
                    clear=cleartext.prepare,
                )
            )
    return rows


_CKKS = [
    _ckks(
        "encode",
        "A public value as a plaintext at `level`, with `scale` (the level's own by default), packed in `layout`.",
        (Value("public", "message"),),
        rules.encode,
        "encode",
        Attr("level", "int", least=0),
        Attr("scale", "scale", required=False),
        Attr("layout", "layout", required=False),
        Attr("use", "str", required=False, choices=("add", "multiply")),
        results=_PLAINTEXT,
        check=parameter_checks.public_fits,
        noise=noise_rules.encoded,
        clear=cleartext.encode,
    ),
    *_prepare_rows(),
    _ckks("to_ntt", "Into the NTT domain, where products are formed.", _SOURCE, rules.to_ntt, "ntt"),
    _ckks("from_ntt", "Back into the coefficient domain.", _SOURCE, rules.from_ntt, "ntt"),
    _ckks("negate", "-x.", _SOURCE, rules.keep, "pointwise", clear=cleartext.negate),
    _ckks(
        "add",
        "x + y, of equal level and scale.",
        _PAIR,
        rules.add,
        "pointwise",
        check=parameter_checks.equal_scales,
        noise=noise_rules.add,
        clear=cleartext.add,
    ),
    _ckks(
        "subtract",
        "x - y, of equal level and scale.",
        _PAIR,
        rules.add,
        "pointwise",
        check=parameter_checks.equal_scales,
        noise=noise_rules.add,
        clear=cleartext.subtract,
    ),
    _ckks(
        "multiply",
        "x * y in three parts; scales multiply.",
        _PAIR,
        rules.multiply,
        "multiply",
        _RESCALE_CONDITION,
        obligations=OBLIGATIONS,
        noise=noise_rules.multiply,
        clear=cleartext.multiply,
    ),
    _ckks(
        "square",
        "x * x in three parts.",
        _SOURCE,
        rules.square,
        "multiply",
        _RESCALE_CONDITION,
        obligations=OBLIGATIONS,
        noise=noise_rules.square,
        clear=cleartext.square,
    ),
    _ckks(
        "add_plaintext",
        "x + p, of equal scale, at the deeper of the two levels.",
        _WITH_PLAINTEXT,
        rules.add_plaintext,
        "pointwise",
        check=parameter_checks.equal_scales,
        noise=noise_rules.add,
        clear=cleartext.add,
    ),
    _ckks(
        "subtract_plaintext",
        "x - p, of equal scale, at the deeper of the two levels.",
        _WITH_PLAINTEXT,
        rules.add_plaintext,
        "pointwise",
        check=parameter_checks.equal_scales,
        noise=noise_rules.add,
        clear=cleartext.subtract,
    ),
    _ckks(
        "multiply_plaintext",
        "x * p at the deeper of the two levels; scales multiply.",
        _WITH_PLAINTEXT,
        rules.multiply_plaintext,
        "pointwise",
        _RESCALE_CONDITION,
        obligations=(RESCALE,),
        noise=noise_rules.multiply,
        clear=cleartext.multiply,
    ),
    _ckks(
        "add_scalar",
        "x + value in every slot, padding included.",
        _SOURCE,
        rules.add_scalar,
        "pointwise",
        Attr("value", "literal", meaning="int, float or complex"),
        check=parameter_checks.added_number_fits,
        noise=noise_rules.add_scalar,
        clear=cleartext.add_scalar,
    ),
    _ckks(
        "multiply_scalar",
        "x * value, value encoded with `scale` (the level's own by default).",
        _SOURCE,
        rules.multiply_scalar,
        "pointwise",
        Attr("value", "literal", meaning="int, float or complex"),
        Attr("scale", "scale", required=False),
        _RESCALE_CONDITION,
        obligations=(RESCALE,),
        check=parameter_checks.factor_fits,
        noise=noise_rules.multiply_scalar,
        clear=cleartext.multiply_scalar,
    ),
    _ckks(
        "multiply_integer",
        "x * value without using a level or changing the scale.",
        _SOURCE,
        rules.multiply_integer,
        "pointwise",
        Attr("value", "int"),
        check=parameter_checks.integer_fits,
        noise=noise_rules.multiply_integer,
        clear=cleartext.multiply_scalar,
    ),
    _ckks(
        "relinearize",
        "Three parts back to two.",
        _SOURCE,
        rules.relinearize,
        "key_switch",
        _RESCALE_CONDITION,
        obligations=(RESCALE,),
        needs=key_needs.relinearization,
        noise=noise_rules.switched,
    ),
    _ckks(
        "rescale",
        "Divide by the prime of the level and drop it: level + 1. With a condition, only if the plaintext's scale is not 1.",
        (Value("source", "encrypted"), Value("plaintext", "plaintext", many=True)),
        rules.rescale,
        "rescale",
        Attr("condition", "str", required=False, choices=CONDITIONS),
        noise=noise_rules.rescale,
    ),
    _ckks(
        "mod_switch",
        "Drop `levels` primes without dividing: the scale stays.",
        _SOURCE,
        rules.mod_switch,
        "free",
        Attr("levels", "int", least=1),
    ),
    _ckks(
        "align",
        "Down to `level` with exactly `scale` (the level's own by default): drops primes, multiplies by a constant and rescales.",
        _SOURCE,
        rules.align,
        "rescale",
        Attr("level", "int", least=0),
        Attr("scale", "scale", required=False),
        check=parameter_checks.can_align,
        noise=noise_rules.align,
    ),
    _ckks(
        "meet",
        "Both values at one level and scale, the deeper one's where possible, found when the program runs: for levels that depend on an argument.",
        _PAIR,
        rules.meet,
        "rescale",
        results=(Value("lhs", "encrypted"), Value("rhs", "encrypted")),
        noise=noise_rules.meet,
        clear=cleartext.same_pair,
    ),
    _ckks(
        "reinterpret_scale",
        "The same ciphertext read with another scale: the message is multiplied by old / new.",
        _SOURCE,
        rules.reinterpret_scale,
        "free",
        Attr("scale", "scale"),
        noise=noise_rules.reinterpret,
        clear=cleartext.reinterpret_scale,
    ),
    _ckks(
        "rotate",
        "Slots moved `shift` places to the right, around.",
        _SOURCE,
        rules.rotate,
        "key_switch",
        _SHIFT,
        needs=key_needs.rotation,
        noise=noise_rules.rotated,
        clear=cleartext.rotate,
    ),
    _ckks(
        "rotate_group",
        "Several rotations of one value from one decomposition (hoisting): result i is moved by shifts[i].",
        _SOURCE,
        rules.rotate_group,
        "hoisted",
        Attr("shifts", "ints"),
        results=(Value("results", "encrypted", many=True),),
        needs=key_needs.rotations,
        noise=noise_rules.rotated,
        clear=cleartext.rotate_group,
    ),
    _ckks(
        "conjugate",
        "Complex conjugate of every slot.",
        _SOURCE,
        rules.conjugate,
        "key_switch",
        needs=key_needs.conjugation,
        noise=noise_rules.switched,
        clear=cleartext.conjugate,
    ),
    _ckks(
        "sum_slots",
        "Slot i becomes the sum of `count` slots at distance `stride` from i to the left, around. Without `count`: over the frame, which every slot then holds the sum of.",
        _SOURCE,
        rules.sum_slots,
        "slot_sum",
        Attr("count", "int", required=False, least=1),
        Attr("stride", "int", required=False, least=1),
        needs=key_needs.slot_sum,
        check=parameter_checks.count_fits,
        noise=noise_rules.sum_slots,
        clear=cleartext.sum_slots,
    ),
    _ckks(
        "polynomial",
        "A polynomial of a value at the scale of its level, ceil(log2(degree + 1)) levels deep.",
        _SOURCE,
        rules.polynomial,
        "polynomial",
        *_COEFFICIENTS,
        needs=key_needs.polynomial,
        check=parameter_checks.coefficients_fit,
        noise=noise_rules.polynomial,
        clear=cleartext.polynomial,
    ),
    _ckks(
        "relayout",
        "The same slots read with another layout.",
        _SOURCE,
        rules.relayout,
        "free",
        Attr("layout", "layout"),
    ),
    _ckks(
        "assume_bound",
        "x, whose absolute values are promised to stay within `bound`.",
        _SOURCE,
        rules.assume_bound,
        "free",
        Attr("bound", "float"),
    ),
    _ckks(
        "bootstrap",
        "Levels restored. An extension point: the workspace has to bring the handler.",
        _SOURCE,
        rules.bootstrap,
        "bootstrap",
        Attr("level", "int", required=False, least=0, meaning="level of the result"),
        handler=None,
        noise=None,
    ),
]

TABLE: tuple[Row, ...] = (*_REFERENCES, *_semantic(), *_logical(), *_CKKS)
