"""Polynomials over an RNS ring, lazy: operators describe, `realize` and the readers compute.

A `Poly` is a handle on a graph node and never changes: operators make new ones, `x += y` rebinds x. Results are exact and the
same bits on every backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ren.backend.buffer import Buffer
from ren.coefficients import as_int, check_ring, integers, shown
from ren.engine import capture
from ren.engine.deferred import Deferred, deferred_call
from ren.engine.run import backend_of
from ren.engine.run import realize as _realize_nodes
from ren.errors import (
    DeviceMismatchError,
    DomainError,
    InvalidCoefficientsError,
    InvalidSampleError,
    OptionError,
    RingMismatchError,
    UnsupportedOperandError,
)
from ren.graph import Node
from ren.numtheory import sampling
from ren.numtheory.crt import centre, recombine
from ren.ops import Domain, Kind, Op
from ren.poly_nodes import (
    const_node,
    constant,
    device_name,
    folded,
    interned,
    leaf,
    negated,
    operation,
    residues_or_recipe,
    sample,
)
from ren.ring import RingSpec

if TYPE_CHECKING:
    from ren.gadget import Digits as Digits
    from ren.gadget import KeyBuffer as KeyBuffer
    from ren.gadget import decompose as decompose

_new = object.__new__
_NTT, _COEFF = Domain.NTT, Domain.COEFF
_ADD, _SUBTRACT, _MULTIPLY, _CONST = Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.CONST
_MODES = ("exact", "approximate", "centred")
#: Types with a number in them that are no integers: refused with a hint instead of Python's bare TypeError.
_NEVER_OPERANDS = (float, complex, np.inexact, np.ndarray, str, bytes, list, tuple, dict)


class Poly:
    """An element of Z_Q[X]/(X^n + 1).

    coeffs: exactly n ints of any size and sign (list, range, NumPy integer array), lowest degree first. device: a backend name,
    None for the default. Raises InvalidCoefficientsError (ValueError) for a wrong number of them and UnsupportedOperandError
    (TypeError) for anything but ints.

    Operators `+ - *` and unary minus take Polys of the same ring and device, and Python ints (the constant polynomial), on either
    side. Equality compares values and so realizes; hashing is by identity (two equal Polys are two dictionary keys; use
    `tobytes()` for a key by value). Copies share the value. Pickling realizes first.
    """

    __slots__ = ("_node", "__weakref__")
    __array_ufunc__ = None  # numpy_integer * poly goes to __rmul__, array * poly is a TypeError

    _node: Node

    def __init__(self, coeffs: Iterable[int], ring: RingSpec, device: str | None = None) -> None:
        check_ring(ring)
        values = integers(coeffs)
        if len(values) != ring.n:
            given = "an empty sequence" if len(values) == 0 else f"{len(values)}"
            raise InvalidCoefficientsError(f"Poly takes exactly n={ring.n} coefficients, got {given}", subject="coeffs")
        rows = np.empty((ring.limbs, ring.n), np.uint64)
        for i, q in enumerate(ring.moduli):
            rows[i] = values % q
        self._node = leaf(rows, ring, _COEFF, device)

    # -- making

    @classmethod
    def _of(cls, node: Node) -> Poly:
        poly = _new(cls)
        poly._node = node
        return poly

    @classmethod
    def const(cls, c: int, ring: RingSpec, device: str | None = None) -> Poly:
        """The constant polynomial c. It takes no memory and works in either domain."""
        check_ring(ring)
        return cls._of(constant(c, interned(ring), device_name(device)))

    @classmethod
    def zeros(cls, ring: RingSpec, device: str | None = None) -> Poly:
        """The constant polynomial 0."""
        return cls.const(0, ring, device)

    @classmethod
    def uniform(cls, ring: RingSpec, *, domain: Domain | str = Domain.COEFF, device: str | None = None) -> Poly:
        """Uniformly random coefficients (in the NTT domain: uniformly random values, which is the same distribution), drawn now."""
        return cls.sample(sampling.UNIFORM, None, ring, domain=domain, device=device)

    @classmethod
    def ternary(cls, ring: RingSpec, weight: int | None = None, *, device: str | None = None) -> Poly:
        """Random coefficients in {-1, 0, 1}, drawn now: each with probability 1/3, or exactly `weight` of them not 0."""
        if weight is None:
            return cls.sample(sampling.TERNARY, None, ring, device=device)
        return cls.sample(sampling.SPARSE_TERNARY, weight, ring, device=device)

    @classmethod
    def gaussian(cls, ring: RingSpec, sigma: str = "3.19", *, device: str | None = None) -> Poly:
        """Discrete Gaussian coefficients with standard deviation `sigma` (text, so that it is exact), drawn now."""
        return cls.sample(sampling.GAUSSIAN, sigma, ring, device=device)

    @classmethod
    def sample(
        cls,
        distribution: str,
        argument: Any,
        ring: RingSpec,
        seed: bytes | None = None,
        stream: int = 0,
        *,
        domain: Domain | str = Domain.COEFF,
        device: str | None = None,
    ) -> Poly:
        """A random polynomial as `ren.numtheory.sampling` defines it. seed None: a fresh one from the operating system.

        Drawn when it is created: the same Poly is the same polynomial however often it is used. Inside a captured function a draw
        without a seed raises RuntimeError, or happens at each replay under random="fresh". Raises InvalidSampleError.
        """
        check_ring(ring)
        sampling.check_sample(distribution, argument, stream, ring.n, ring.limbs)
        domain = Domain(domain)
        if domain is _NTT and distribution != sampling.UNIFORM:
            raise DomainError(f"{distribution} is drawn in the coefficient domain", hint="Call .ntt() on the result")
        if seed is None:
            seed = sampling.fresh_seed() if capture.may_draw() else None
        elif len(seed) != sampling.SEED_BYTES:
            raise InvalidSampleError(f"a seed has {sampling.SEED_BYTES} bytes, got {len(seed)}", subject="seed")
        return cls._of(sample((distribution, argument, stream), ring, domain, device, seed))

    @classmethod
    def from_residues(
        cls, rows: NDArray[np.uint64], ring: RingSpec, domain: Domain | str, device: str | None = None
    ) -> Poly:
        """A Poly from canonical residues [limbs, n] in the order of `domain`. Raises InvalidCoefficientsError for another shape,
        type or residue."""
        check_ring(ring)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint64 or rows.shape != (ring.limbs, ring.n):
            found = f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
            raise InvalidCoefficientsError(
                f"residues must be a uint64 array of shape ({ring.limbs}, {ring.n}), got {found}", subject="rows"
            )
        if (rows >= np.array(ring.moduli, np.uint64)[:, None]).any():
            raise InvalidCoefficientsError("residues must lie in [0, q_i) for each limb i", subject="rows")
        return cls._of(leaf(rows, ring, Domain(domain), device))

    @classmethod
    def from_float(cls, values: NDArray[np.float64], ring: RingSpec, device: str | None = None) -> Poly:
        """A Poly from n finite, integer-valued doubles, exact. Raises InvalidCoefficientsError otherwise."""
        check_ring(ring)
        floats = np.ascontiguousarray(values, np.float64)
        if floats.shape != (ring.n,):
            raise InvalidCoefficientsError(
                f"from_float takes {ring.n} doubles, got shape {floats.shape}", subject="values"
            )
        if not (np.isfinite(floats).all() and (floats == np.rint(floats)).all()):
            raise InvalidCoefficientsError(
                "from_float takes finite, integer-valued doubles", subject="values", hint="Round first"
            )
        return cls.from_integers(floats, ring, device)

    @classmethod
    def from_integers(cls, values: NDArray[np.float64], ring: RingSpec, device: str | None = None) -> Poly:
        """`from_float` without its checks, for values that are n finite, integer-valued doubles by construction."""
        given = leaf(values.view(np.uint64), ring, _COEFF, device, Kind.FLOAT)
        return cls._of(Node(Op.FROM_FLOAT, (given,), (), given.ring, _COEFF, given.device))

    # -- what it is

    @property
    def ring(self) -> RingSpec:
        return self._node.ring

    @property
    def domain(self) -> Domain:
        """The domain in which the value is stored when it is realized."""
        return self._node.domain

    @property
    def device(self) -> str:
        return self._node.device

    @property
    def is_realized(self) -> bool:
        """Whether reading it computes nothing."""
        return self._node.realized is not None or self._node.op is _CONST

    def __repr__(self) -> str:
        node = self._node
        state = "constant" if node.op is _CONST else "realized" if node.realized is not None else "lazy"
        return f"<Poly n={node.ring.n} limbs={node.ring.limbs} {node.domain} {node.device} {state}>"

    # -- arithmetic

    def __add__(self, other: Any) -> Poly:
        return self._binary(_ADD, other)

    def __radd__(self, other: Any) -> Poly:
        return self._binary(_ADD, other)

    def __sub__(self, other: Any) -> Poly:
        return self._binary(_SUBTRACT, other)

    def __rsub__(self, other: Any) -> Poly:
        return self._binary(_SUBTRACT, other, swap=True)

    def __mul__(self, other: Any) -> Poly:
        return self._binary(_MULTIPLY, other)

    def __rmul__(self, other: Any) -> Poly:
        return self._binary(_MULTIPLY, other)

    def __neg__(self) -> Poly:
        x = self._node
        if x.op is _CONST:
            return Poly._of(folded(negated, x, x.ring.moduli))
        return Poly._of(Node(Op.NEGATE, (x,), (), x.ring, x.domain, x.device))

    def __pos__(self) -> Poly:
        return self

    def _binary(self, op: Op, other: Any, *, swap: bool = False) -> Poly:
        x = self._node
        if isinstance(other, Poly):
            y = other._node
            if x.ring is y.ring and x.device == y.device and x.op is not _CONST and y.op is not _CONST and not swap:
                # What every operation on ciphertexts makes several of, without the calls below.
                domain = _NTT if op is _MULTIPLY else x.domain if x.domain is y.domain else _NTT
                made = _new(Poly)
                made._node = Node(op, (x, y), (), x.ring, domain, x.device)
                return made
            if x.ring is not y.ring and x.ring != y.ring:
                raise RingMismatchError(
                    f"cannot {op} polynomials of different rings: {x.ring!r} and {y.ring!r}", subject="ring"
                )
            if x.device != y.device:
                raise DeviceMismatchError(
                    f"cannot {op} polynomials on different devices: {x.device!r} and {y.device!r}",
                    subject="device",
                    hint="Move one with .to(device)",
                )
        elif isinstance(other, (int, np.integer, Deferred)):
            y = constant(other, x.ring, x.device)
        elif isinstance(other, _NEVER_OPERANDS):
            raise UnsupportedOperandError(
                f"cannot {op} a Poly and {type(other).__name__} {shown(other)}",
                hint="Polys combine with Polys of the same ring and with ints",
            )
        else:
            return NotImplemented  # type: ignore[no-any-return]
        return Poly._of(operation(op, y, x) if swap else operation(op, x, y))

    # -- structure

    def ntt(self) -> Poly:
        """The same polynomial, stored in the NTT domain."""
        return self._transformed(Op.NTT, _NTT)

    def intt(self) -> Poly:
        """The same polynomial, stored in the coefficient domain."""
        return self._transformed(Op.INTT, _COEFF)

    def _transformed(self, op: Op, domain: Domain) -> Poly:
        x = self._node
        if x.domain is domain:
            return self
        if x.op is _CONST:
            return Poly._of(Node(_CONST, (), x.params, x.ring, domain, x.device, recipe=x.recipe))
        return Poly._of(Node(op, (x,), (), x.ring, domain, x.device))

    def automorphism(self, g: SupportsIndex) -> Poly:
        """x(X^g), g odd (taken modulo 2n). Same domain. Raises UnsupportedOperandError (TypeError) or InvalidCoefficientsError."""
        x = self._node
        g = as_int(g, "g") % (2 * x.ring.n)
        if not g & 1:
            raise InvalidCoefficientsError(f"automorphism(g): g must be odd, got {g}", subject="g")
        if g == 1 or x.op is _CONST:
            return self
        return Poly._of(Node(Op.AUTOMORPHISM, (x,), (g,), x.ring, x.domain, x.device))

    def limbs(self, start: int, stop: int) -> Poly:
        """The residues modulo moduli start..stop-1, as a polynomial over that ring. A view: no work, shared memory."""
        x = self._node
        start, stop = as_int(start, "start"), as_int(stop, "stop")
        if not 0 <= start < stop <= x.ring.limbs:
            raise InvalidCoefficientsError(
                f"limbs({start}, {stop}) of a polynomial with {x.ring.limbs} limbs", subject="limbs"
            )
        ring = x.ring.take(start, stop)
        if ring.limbs == x.ring.limbs:
            return self
        if x.op is _CONST:
            part = deferred_call(lambda r: r[start:stop], residues_or_recipe(x))
            return Poly._of(const_node(part, ring, x.domain, x.device))
        return Poly._of(Node(Op.LIMBS, (x,), (start, stop), ring, x.domain, x.device))

    def mod_drop(self, k: int = 1) -> Poly:
        """Reduced modulo the product without the last k primes: the same integers if they are small enough. A view."""
        return self.limbs(0, self.ring.limbs - as_int(k, "k"))

    def rescale(self) -> Poly:
        """round(x / q_last), ties up, without the last limb. Same domain."""
        return self.mod_down(1)

    def mod_down(self, k: int, add: Poly | None = None) -> Poly:
        """Divide by the product D of the last k moduli and drop them: (y - c) / D with y = x + P z and c the centred conversion of
        the dropped limbs of y. k = 1 rounds exactly, ties up. Where z has some of the dropped limbs, P goes first, then those.

        add: z, over the first moduli of this ring (at least the ones that are kept); P is the product of those z lacks. Where z has some
        of the dropped limbs, the result is that of dividing by P first and by those after (relinearization with its rescale).
        Same domain.
        """
        x = self._node
        k = as_int(k, "k")
        if not 0 < k < x.ring.limbs:
            raise InvalidCoefficientsError(
                f"cannot drop {k} of {x.ring.limbs} limbs", subject="k", hint="At least one limb must stay"
            )
        args: tuple[Node, ...] = (x,)
        if add is not None:
            if not isinstance(add, Poly):
                raise UnsupportedOperandError(f"mod_down: add must be a Poly, got {type(add).__name__}", subject="add")
            z = add._node
            if z.device != x.device:
                raise DeviceMismatchError(f"mod_down: {x.device!r} and {z.device!r}", subject="add")
            kept = x.ring.limbs - k
            if z.ring.n != x.ring.n or z.ring.limbs < kept or z.ring.moduli != x.ring.moduli[: z.ring.limbs]:
                raise RingMismatchError(
                    f"mod_down: add must have the first {kept} or more moduli of {x.ring!r}, got {z.ring!r}",
                    subject="add",
                )
            args = (x, z)
        return Poly._of(Node(Op.MOD_DOWN, args, (k,), x.ring.drop(k), x.domain, x.device))

    def mod_raise(self, moduli: Sequence[int], mode: str = "exact") -> Poly:
        """The polynomial over this ring extended by `moduli`, in the coefficient domain.

        mode "exact": the centred integers in (-Q/2, Q/2], by the fixed-point rounding of `ren.ops`: one within limbs * 2^-55 * Q of
        +-Q/2 may come out Q away; "approximate": the integers in [0, Q) plus a multiple of Q below limbs * Q; "centred": as
        approximate with CRT factors taken centred. Raises InvalidRingError for moduli that do not fit, OptionError (a ValueError)
        for another mode.
        """
        if mode not in _MODES:
            raise OptionError(f"mod_raise: mode must be one of {', '.join(_MODES)}, got {mode!r}", subject="mode")
        added = tuple(int(q) for q in moduli)
        if not added:
            return self.intt()
        x = self.intt()._node
        return Poly._of(Node(Op.BASIS_EXTEND, (x,), (mode, added), x.ring.extend(added), _COEFF, x.device))

    def contiguous(self) -> Poly:
        """The same polynomial in memory of its own (a view of few limbs keeps all of them alive)."""
        x = self._node
        return Poly._of(Node(Op.COPY, (x,), (), x.ring, x.domain, x.device))

    def to(self, device: str) -> Poly:
        """The same polynomial on another device; realizes it unless it is a constant or there already."""
        x = self._node
        if device == x.device:
            return self
        if x.op is _CONST:
            backend_of(device)
            return Poly._of(Node(_CONST, (), x.params, x.ring, x.domain, device, recipe=x.recipe))
        return Poly.from_residues(self.residues(), x.ring, x.domain, device)

    # -- reading

    def realize(self) -> Poly:
        """Compute the value now and keep it; returns self. Raises RuntimeError inside a captured function.

        Only this value is kept: what it was computed from is computed again where it is used again, unless it is realized too
        (`ren.realize(x, y)` computes several at once, shared parts once).
        """
        _realize_nodes((self._node,))
        return self

    def residues(self) -> NDArray[np.uint64]:
        """A host copy of the residues [limbs, n], in the domain of this Poly."""
        x = self._node
        if x.op is _CONST and x.realized is None:
            capture.refuse_realize()
            rows = np.zeros((x.ring.limbs, x.ring.n), np.uint64)
            at: Any = slice(None) if x.domain is _NTT else slice(0, 1)
            rows[:, at] = np.array(x.params, np.uint64)[:, None]
            return rows
        return self.buffer().to_host().reshape(x.ring.limbs, x.ring.n)

    def buffer(self) -> Buffer:
        """The memory that holds the value, computed if it was not."""
        capture.refuse_realize()
        _realize_nodes((self._node,))
        buffer = self._node.realized
        assert buffer is not None
        return buffer

    def _coefficients(self) -> NDArray[np.uint64]:
        """Residues in the coefficient domain. Keeps the value of this Poly too: who reads one often goes on with it."""
        coefficients = self.intt()
        _realize_nodes((self._node, coefficients._node))
        return coefficients.residues()

    def tolist(self) -> list[int]:
        """The n coefficients in [0, Q)."""
        return [int(c) for c in recombine(self._coefficients(), self.ring.moduli)]

    def to_centered_list(self) -> list[int]:
        """The n coefficients in (-Q/2, Q/2]."""
        return [int(c) for c in centre(recombine(self._coefficients(), self.ring.moduli), self.ring.modulus)]

    def tobytes(self) -> bytes:
        """The residues in the coefficient domain as little-endian 64-bit words, limb by limb: equal for equal polynomials."""
        return self._coefficients().astype("<u8", copy=False).tobytes()

    def lift(self) -> tuple[NDArray[np.float64], int]:
        """The centred coefficients as correctly rounded doubles, and how many did not fit (see `ren.ops.Op.LIFT`)."""
        x = self.intt()._node
        node = Node(Op.LIFT, (x,), (), x.ring, _COEFF, x.device, kind=Kind.FLOAT)
        _realize_nodes((self._node, node))
        assert node.realized is not None
        words = node.realized.to_host()
        return words[:-1].view(np.float64), int(words[-1])

    def __eq__(self, other: object) -> bool:
        """Whether both are the same polynomial over the same ring. Realizes both, so it raises inside a captured function."""
        if not isinstance(other, Poly):
            return NotImplemented
        if self.ring != other.ring:
            return False
        if self._node is other._node:
            return True
        if self.domain is other.domain:
            _realize_nodes((self._node, other._node))
            return bool(np.array_equal(self.residues(), other.residues()))
        return bool(np.array_equal(self._coefficients(), other._coefficients()))

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> NoReturn:
        raise UnsupportedOperandError("a Poly has no truth value", hint="Compare with ==, or call tolist()")

    # -- copies

    def __copy__(self) -> Poly:
        return Poly._of(self._node)

    def __deepcopy__(self, memo: dict[int, Any]) -> Poly:
        return Poly._of(self._node)

    def __reduce__(self) -> tuple[Any, ...]:
        x = self._node
        if x.op is _CONST and x.recipe is None:
            return _restore_constant, (x.params, x.ring, x.domain)
        return Poly.from_residues, (self.residues(), x.ring, x.domain)


# -- several at once ---------------------------------------------------------------------------------------------------


def realize(*polys: Poly) -> None:
    """Compute several Polys as one schedule: shared parts once, one memory plan."""
    _realize_nodes([p._node for p in polys])


def _restore_constant(residues: tuple[int, ...], ring: RingSpec, domain: Domain) -> Poly:
    return Poly._of(Node(_CONST, (), residues, interned(ring), domain, device_name(None)))


def __getattr__(name: str) -> Any:
    if name in ("Digits", "KeyBuffer", "decompose"):
        from ren import gadget

        return getattr(gadget, name)
    raise AttributeError(f"module 'ren.poly' has no attribute {name!r}")
