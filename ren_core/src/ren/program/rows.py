"""The form of one row of an operation table, and what its columns mean.

Everything that Ren knows about an operation stands in its row: registration with xDSL, both verifiers, state inference, key
requirements, readiness, dead-value elimination, interpretation and the reference page all read it. A third-party dialect is a tuple of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from ren.program.cleartext import ClearRule
from ren.program.literals import LayoutAttr, ScaleAttr, decode, encode
from ren.program.noise_rules import NoiseRule
from ren.program.types import EncryptedType, MaterialType, MessageType, PlaintextType, ResourceType

#: Kinds of operands and results: name -> type classes; None allows every type.
KINDS: dict[str, tuple[type[Attribute], ...] | None] = {
    "encrypted": (EncryptedType,),
    "plaintext": (PlaintextType,),
    "message": (MessageType,),
    "public": (MessageType, PlaintextType),
    "value": (EncryptedType, MessageType, PlaintextType),
    "any": None,
}
#: Kinds that only make sense in a row of this module's users, kept apart for the reference page.
SYMBOL_TYPES = (MaterialType, ResourceType)

#: Kinds of attributes: name -> attribute class; None is any literal.
ATTRIBUTES: dict[str, type[Attribute] | None] = {
    "int": IntegerAttr,
    "float": FloatAttr,
    "str": StringAttr,
    "ints": ArrayAttr,
    "floats": ArrayAttr,
    "list": ArrayAttr,
    "dict": DictionaryAttr,
    "scale": ScaleAttr,
    "layout": LayoutAttr,
    "literal": None,
}


@dataclass(frozen=True, slots=True)
class Value:
    """An operand or result: its name in the documentation, its kind, and whether there may be any number of it."""

    name: str
    kind: str
    many: bool = False


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute. `choices` limits a str; `least` an int, or every element of ints."""

    name: str
    kind: str
    required: bool = True
    choices: tuple[str, ...] = ()
    least: int | None = None
    meaning: str = ""

    def problem(self, attribute: Attribute) -> str | None:
        """Why an attribute is not legal here, or None."""
        want = ATTRIBUTES[self.kind]
        if want is not None and type(attribute) is not want:
            return f"attribute {self.name!r} must be {self.kind}, got {str(attribute)[:60]}"
        if self.kind == "float" and attribute.type.name != "f64":  # type: ignore[attr-defined]
            return f"attribute {self.name!r} must be an f64"
        if self.kind == "int" and not self._legal_int(attribute):
            return f"attribute {self.name!r} must be an integer" + ("" if self.least is None else f" >= {self.least}")
        if self.kind in ("ints", "floats"):
            items = attribute.data  # type: ignore[attr-defined]
            ok = all(self._legal_int(i) if self.kind == "ints" else type(i) is FloatAttr for i in items)
            if not items or not ok:
                return f"attribute {self.name!r} must be a non-empty array of {self.kind}"
        if self.choices and attribute.data not in self.choices:  # type: ignore[attr-defined]
            return f"attribute {self.name!r} must be one of {', '.join(self.choices)}"
        return None

    def _legal_int(self, attribute: Attribute) -> bool:
        if type(attribute) is not IntegerAttr or attribute.type.name != "integer_type" or attribute.type.width.data < 2:
            return False
        return self.least is None or attribute.value.data >= self.least

    def make(self, value: Any) -> Attribute:
        """The attribute of a Python value."""
        if self.kind in ("int", "ints") and not isinstance(value, Attribute):
            value = [int(v) for v in value] if self.kind == "ints" else int(value)
        elif self.kind in ("float", "floats") and not isinstance(value, Attribute):
            value = [float(v) for v in value] if self.kind == "floats" else float(value)
        return encode(value)


@dataclass(frozen=True, slots=True)
class KeyNeed:
    """An evaluation key that executing an operation takes. kind: "relinearization", "rotation" or "conjugation".

    step: rotation by `step` slots as written, before it is made canonical. span: for a sum over `span` slots (0: all slots of the
    engine) all its power-of-two steps from `step` on are needed.
    """

    kind: str
    step: int = 0
    span: int | None = None


#: (operand types, attributes as Python values) -> result types. Raises RuleError.
Rule = Callable[[tuple[Attribute, ...], Mapping[str, Any]], tuple[Attribute, ...]]
#: (operand types, attributes as Python values) -> keys.
Needs = Callable[[tuple[Attribute, ...], Mapping[str, Any]], tuple[KeyNeed, ...]]


#: (operand types, attributes as Python values, parameters) -> (readiness code, message) of what only parameters decide, or None.
Check = Callable[[tuple[Attribute, ...], Mapping[str, Any], Any], "tuple[str, str] | None"]


class RuleError(ValueError):
    """Operands that an operation does not accept. `code` is the readiness code it is reported under."""

    def __init__(self, message: str, code: str = "invalid-state") -> None:
        super().__init__(message)
        self.code = code


def no_keys(types: tuple[Attribute, ...], attributes: Mapping[str, Any]) -> tuple[KeyNeed, ...]:
    """The operation takes no evaluation key."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation.

    name: "dialect.words". summary: one sentence. operands, results, attributes: see above. pure: without effect, so that it is removed when
    nothing uses it and merged with its equals. rule: result types from operand types, None when they are not implied. obligations: the
    scheduling obligations it may carry. needs: evaluation keys. check: what readiness asks once the parameters are known. noise: predicted error
    of the results. clear: what it means on slot vectors without encryption, for `Program.debug`; without it results are taken as they decrypt. handler: "module:function" that
    executes it, called as handler(op, operands, workspace), for built-in operations with the machine of `ren.program.interpret`; None for operations that only exist before lowering, or that the workspace has to provide.
    cost: name of its entry in the cost model. stage: "reference", "call", "semantic", "logical" or "ckks"; what is below "ckks" in the
    pipeline must be gone before a program runs.
    """

    name: str
    summary: str
    stage: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = (Value("result", "encrypted"),)
    attributes: tuple[Attr, ...] = ()
    pure: bool = True
    rule: Rule | None = None
    obligations: tuple[str, ...] = ()
    needs: Needs = no_keys
    check: Check | None = None
    noise: NoiseRule | None = None
    clear: ClearRule | None = None
    handler: str | None = None
    cost: str = "free"

    @property
    def variadic(self) -> bool:
        return any(v.many for v in self.operands)

    def attr(self, name: str) -> Attr | None:
        return next((a for a in self.attributes if a.name == name), None)

    def python_attributes(self, properties: Mapping[str, Attribute]) -> dict[str, Any]:
        """Attributes as Python values; absent optional ones are left out."""
        return {name: decode(a) for name, a in properties.items()}
