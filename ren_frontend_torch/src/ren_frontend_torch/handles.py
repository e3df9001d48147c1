"""What a traced function gets in place of data: a handle that records what is done with it.

A handle is not a value but a name of one, as a tensor variable is: changes in place move it to a new value, so every alias of it sees the change.
Handles that share memory in PyTorch (views) share the mark `Storage.shared`; those are not changed in place.

It is a real tensor subclass without data. PyTorch's C++ code takes anything that merely says it is a tensor for one, and crashes on it; of a
subclass it knows that every call belongs to `__torch_function__`, and whatever slipped past that would reach `__torch_dispatch__`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from ren.errors import DataDependentError, InPlaceError, TraceError
from torch.fx.node import Node

from ren_frontend_torch.locations import user_source, variable_of
from ren_frontend_torch.targets import BINARY, words

if TYPE_CHECKING:
    from ren_frontend_torch.tracer import Tracer


class Storage:
    """Memory that handles stand for. argument: the parameter it came in as, if it did. shared: other handles may see it."""

    __slots__ = ("argument", "shared")

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument
        self.shared = False


_BRANCH = "Compute both sides and combine them by arithmetic, or declare what decides static(...)"
_NUMBER = "Keep it as a tensor, compute it outside, or declare the input static(...)"
_PRINT = "Print the decrypted result instead"


class Handle(torch.Tensor):
    """Stands for a tensor while a function is traced."""

    node: Node
    tracer: Tracer
    memory: Storage

    #: What code that asks for the class is to find. (`type` cannot be told; see `frozen-type`.)
    __class__ = property(lambda self: torch.Tensor)

    # NumPy arrays and scalars on the left leave the operation to the handle.
    __array_ufunc__ = None

    @staticmethod
    def make(node: Node, tracer: Tracer, memory: Storage) -> Handle:
        handle: Handle = torch.Tensor._make_wrapper_subclass(Handle, (0,), dtype=torch.float64)
        fields = handle.__dict__
        fields["node"], fields["tracer"], fields["memory"] = node, tracer, memory
        return handle

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        return _tracer_in(args, kwargs).torch_function(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _tracer_in(args, kwargs or {}).refusal_here(
            TraceError, f"{func} inside PyTorch", "Use a function of torch that takes tensors"
        )

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

    def __round__(self, *digits: Any) -> Any:
        self.refuse("round()", _NUMBER)

    def __contains__(self, item: Any) -> bool:
        self.refuse("'in'", _BRANCH)

    def __str__(self) -> str:
        self.refuse("printing or str()", _PRINT)

    def __format__(self, spec: str) -> str:
        self.refuse("formatting", _PRINT)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse("conversion to a NumPy array", "Use the torch function of that name")

    def item(self) -> Any:
        self.refuse(".item()", _NUMBER)

    def tolist(self) -> Any:
        self.refuse(".tolist()", _NUMBER)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse(".numpy()", _NUMBER)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse("conversion through DLPack", _NUMBER)

    def is_nonzero(self) -> bool:
        self.refuse(".is_nonzero()", _NUMBER)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.refuse("pickling", "Return it from the traced function instead")

    def __copy__(self) -> Any:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone()

    def __repr__(self, **ignored: Any) -> str:  # type: ignore[override]
        # Debuggers and error messages ask for it, so it does not refuse.
        return f"<traced {self.tracer.role(self)} value {self.node.name}>"

    # -- shape questions ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        several = self.tracer.several.get(self.node)
        if several is not None:
            return several
        shape = self.tracer.shape(self)
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def size(self, dim: int | None = None) -> Any:
        return torch.Size(self.tracer.shape(self)) if dim is None else self.tracer.axis(self, dim)

    def dim(self) -> int:
        return self.tracer.rank(self)

    def numel(self) -> int:
        return math.prod(self.tracer.shape(self))

    ndimension, nelement = dim, numel

    # -- changes in place --------------------------------------------------------------------------------------------

    def move(self, other: Handle) -> Handle:
        """Become `other`, after an operation in place."""
        self.__dict__["node"] = other.node
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self.tracer.refusal_here(
            InPlaceError, "assignment to elements", "Build the tensor from its parts, or multiply by a mask and add"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise self.tracer.refusal_here(InPlaceError, f"assignment to .{name}", "Use a variable of its own")


#: Properties that tracing answers.
QUESTIONS: dict[str, Callable[[Handle], Any]] = {
    "shape": lambda h: torch.Size(h.tracer.shape(h)),
    "ndim": lambda h: h.tracer.rank(h),
    "dtype": lambda h: h.tracer.dtype(h),
    "device": lambda h: torch.device("cpu"),
    "layout": lambda h: torch.strided,
    "itemsize": lambda h: h.tracer.dtype(h).itemsize,
    "names": lambda h: (None,) * h.tracer.rank(h),
    "requires_grad": lambda h: False,
    "is_leaf": lambda h: True,
    **{f"is_{n}": lambda h: False for n in words("cuda mps meta sparse quantized nested mkldnn xpu ipu maia vulkan")},
    "is_cpu": lambda h: True,
}

#: Methods, and functions of torch with the same name, that tracing answers.
ANSWERS: dict[str, Callable[..., Any]] = {
    "numel": lambda h: h.numel(),
    "is_complex": lambda h: h.tracer.dtype(h).is_complex,
    "is_floating_point": lambda h: h.tracer.dtype(h).is_floating_point,
    "is_signed": lambda h: True,
    "is_contiguous": lambda h, *args, **kwargs: True,
    "is_conj": lambda h: False,
    "is_neg": lambda h: False,
    "is_inference": lambda h: False,
    "is_same_size": lambda h, other: h.size() == other.size(),
    "is_tensor": lambda h: True,
    "element_size": lambda h: h.tracer.dtype(h).itemsize,
    "get_device": lambda h: -1,
    "requires_grad_": lambda h, *args: h,
}


def _tracer_in(*values: Any) -> Tracer:
    """The tracer of the first handle in nested arguments."""
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        if type(value) is Handle:
            return value.tracer
        if isinstance(value, dict):
            pending.extend(reversed(value.values()))
        elif isinstance(value, (tuple, list)):
            pending.extend(reversed(value))
    file, line = user_source()
    raise TraceError("a traced value is used where tracing cannot follow it", file=file, line=line)


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
        return self.tracer.in_place(function, self, other)

    return apply


for _name in BINARY:
    _function = getattr(operator, _name + "_" if _name in ("and", "or") else _name)
    setattr(Handle, f"__{_name}__", _operator(_function))
    setattr(Handle, f"__r{_name}__", _reflected(_function))
    if _name != "matmul":  # tensors have none: x @= W makes a new one
        setattr(Handle, f"__i{_name}__", _in_place(_function))
for _name in words("neg pos abs invert lt le eq ne gt ge getitem"):
    setattr(Handle, f"__{_name}__", _operator(getattr(operator, _name)))
# Defining __eq__ does not take away the identity hash of tensors.
Handle.__hash__ = torch.Tensor.__hash__  # type: ignore[method-assign]
