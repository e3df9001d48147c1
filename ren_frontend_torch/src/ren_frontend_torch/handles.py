"""What a traced function gets in place of data: a handle that records what is done with it.

A handle is not a value but a name of one, as a tensor variable is: changes in place move it to a new value, so every alias of it sees the change.
Handles that share memory in PyTorch (views) share a `Storage`; those are not changed in place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from ren.errors import DataDependentError, InPlaceError, TraceError
from torch.fx.node import Node
from torch.fx.proxy import Proxy

from ren_frontend_torch.locations import user_source, variable_of
from ren_frontend_torch.targets import BINARY, PROPERTIES, words

if TYPE_CHECKING:
    from ren_frontend_torch.tracer import Tracer


class Storage:
    """Memory that one or more handles stand for. argument: the parameter it came in as, if it did."""

    __slots__ = ("argument", "shared")

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument
        self.shared = False


_BRANCH = "Both sides have to be computed and combined by arithmetic, or the condition declared static(...)"
_NUMBER = "Keep it as a tensor, compute it outside, or declare the input static(...)"


class Handle(Proxy):
    """Stands for a tensor while a function is traced. `isinstance(handle, torch.Tensor)` is true."""

    # Without this, code that tests for tensors would silently take its other branch.
    __class__ = property(lambda self: torch.Tensor)
    # NumPy arrays and scalars on the left leave the operation to the handle.
    __array_ufunc__ = None
    node: Node
    tracer: Tracer  # type: ignore[assignment]

    def __init__(self, node: Node, tracer: Tracer, storage: Storage) -> None:
        super().__init__(node, tracer)  # type: ignore[arg-type]
        self.memory = storage

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracer = _tracer_in(args) or _tracer_in(kwargs)
        if tracer is None:
            raise TraceError("a traced value reached PyTorch in a place where tracing cannot follow it")
        return tracer.torch_function(orig_method, args, kwargs)

    # -- what needs numbers ------------------------------------------------------------------------------------------

    def refuse(self, what: str, hint: str) -> NoReturn:
        file, line = user_source()
        name = variable_of(self)
        subject = "a value" if name is None else repr(name)
        raise self.tracer.refusal(
            DataDependentError(
                f"{what} needs the numbers of {subject}, which is {self.tracer.role(self)} and unknown while tracing",
                subject=name,
                hint=hint,
                file=file,
                line=line,
                variable=name,
            )
        )

    def __bool__(self) -> bool:
        self.refuse("a truth test (if, while, assert, and, or, not, in)", _BRANCH)

    def __iter__(self) -> Iterator[Any]:
        several = self.tracer.several.get(self.node)
        if several is None:
            self.refuse("iteration", "Use whole-tensor operations, or index what is needed")
        return iter([self.tracer.call("function", operator.getitem, (self, i), {}) for i in range(several)])

    def __int__(self) -> int:
        self.refuse("int()", _NUMBER)

    def __index__(self) -> int:
        self.refuse("use as an index", _NUMBER)

    def __float__(self) -> float:
        self.refuse("float()", _NUMBER)

    def __complex__(self) -> complex:
        self.refuse("complex()", _NUMBER)

    def __round__(self, digits: int | None = None) -> Any:
        self.refuse("round()", _NUMBER)

    def __contains__(self, item: object) -> bool:
        self.refuse("'in'", _BRANCH)

    def __str__(self) -> str:
        self.refuse("printing or str()", "Print the decrypted result instead")

    def __format__(self, spec: str) -> str:
        self.refuse("formatting", "Print the decrypted result instead")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse("conversion to a NumPy array", "Use the torch function of that name")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.clone()

    def __copy__(self) -> Any:
        return self.clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.refuse("pickling", "Return it from the traced function instead")

    def __repr__(self) -> str:
        return f"<traced {self.tracer.role(self)} value {self.node.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a tensor is not callable")

    # -- shape questions ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        several = self.tracer.several.get(self.node)
        return self.tracer.shape(self)[0] if several is None else several

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.tracer.axis(self, dim)

    def dim(self) -> int:
        return self.tracer.rank(self)

    def numel(self) -> int:
        return math.prod(self.tracer.shape(self))

    ndimension, nelement = dim, numel

    # -- changes in place --------------------------------------------------------------------------------------------

    def move(self, other: Any) -> Handle:
        """Become `other`, after an operation in place."""
        self.tracer.check_in_place(self)
        assert type(other) is Handle
        self.node = other.node
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self.tracer.refusal_here(
            InPlaceError, "assignment to elements", "Build the tensor from its parts, or multiply by a mask and add"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN:
            raise self.tracer.refusal_here(InPlaceError, f"assignment to .{name}", "Use a variable of its own")
        object.__setattr__(self, name, value)

    # -- attributes --------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        answer = _QUESTIONS.get(name)
        if answer is not None:
            return answer(self)
        if name in PROPERTIES:
            return self.tracer.call("property", name, (self,), {})
        if name in _NUMBERS:
            return partial(self.refuse, f".{name}()", _NUMBER)
        if name in _STATE:
            raise self.tracer.refusal_here(InPlaceError, f"access to .{name}", "Encrypted programs have no gradients")
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        return partial(self.tracer.method, name, self)

    def keys(self) -> Any:
        raise AttributeError("'Tensor' object has no attribute 'keys'")


_OWN = ("node", "tracer", "memory")
#: Methods that give Python data.
_NUMBERS = frozenset(("item", "tolist", "numpy", "__dlpack__", "is_nonzero"))
#: Attributes with state that a program has not.
_STATE = frozenset(
    ("data", "grad", "grad_fn", "backward", "register_hook", "storage", "untyped_storage", "data_ptr", "set_")
)


def _shape(handle: Handle) -> torch.Size:
    return torch.Size(handle.tracer.shape(handle))


_QUESTIONS: dict[str, Callable[[Handle], Any]] = {
    "shape": _shape,
    "ndim": lambda h: h.tracer.rank(h),
    "dtype": lambda h: h.tracer.dtype(h),
    "device": lambda h: torch.device("cpu"),
    "layout": lambda h: torch.strided,
    "requires_grad": lambda h: False,
    "is_leaf": lambda h: True,
    "is_cuda": lambda h: False,
    "is_mps": lambda h: False,
    "is_meta": lambda h: False,
    "is_sparse": lambda h: False,
    "is_quantized": lambda h: False,
    "is_nested": lambda h: False,
    "names": lambda h: (None,) * h.tracer.rank(h),
    "is_complex": lambda h: lambda: bool(h.tracer.dtype(h).is_complex),
    "is_floating_point": lambda h: lambda: bool(h.tracer.dtype(h).is_floating_point),
    "is_contiguous": lambda h: lambda *args, **kwargs: True,
    "get_device": lambda h: lambda: -1,
    "requires_grad_": lambda h: lambda *args: h,
}


def _tracer_in(value: Any) -> Tracer | None:
    if type(value) is Handle:
        return value.tracer
    items = value.values() if isinstance(value, dict) else value if type(value) in (tuple, list) else ()
    for item in items:
        found = _tracer_in(item)
        if found is not None:
            return found
    return None


def _operator(function: Any) -> Callable[..., Any]:
    def apply(self: Handle, *others: Any) -> Any:
        return self.tracer.call("function", function, (self, *others), {})

    return apply


def _reflected(function: Any) -> Callable[..., Any]:
    def apply(self: Handle, other: Any) -> Any:
        return self.tracer.call("function", function, (other, self), {})

    return apply


def _in_place(function: Any) -> Callable[..., Any]:
    def apply(self: Handle, other: Any) -> Any:
        self.tracer.check_in_place(self)
        return self.move(self.tracer.call("function", function, (self, other), {}))

    return apply


for _name in BINARY:
    _function = getattr(operator, _name + "_" if _name in ("and", "or") else _name)
    setattr(Handle, f"__{_name}__", _operator(_function))
    setattr(Handle, f"__r{_name}__", _reflected(_function))
    setattr(Handle, f"__i{_name}__", _in_place(_function))
for _name in words("neg pos abs invert lt le eq ne gt ge getitem"):
    setattr(Handle, f"__{_name}__", _operator(getattr(operator, _name)))
# Defining __eq__ does not take away the identity hash of tensors.
Handle.__hash__ = object.__hash__  # type: ignore[method-assign]
