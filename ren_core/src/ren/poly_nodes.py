"""Graph nodes that the methods of Poly make: operations, constants (folded at once), leaves with data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.coefficients import as_int
from ren.engine import capture
from ren.engine.deferred import Deferred, deferred_call
from ren.engine.pool import pool_of
from ren.engine.run import backend_of
from ren.graph import Node
from ren.ops import Domain, Kind, Op
from ren.ring import RingSpec

_NTT, _COEFF = Domain.NTT, Domain.COEFF
_ADD, _SUBTRACT, _MULTIPLY, _CONST, _BUFFER = Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.CONST, Op.BUFFER


def operation(op: Op, x: Node, y: Node) -> Node:
    """x op y for ADD, SUBTRACT and MULTIPLY of one ring and device, constants folded. Declared in the domain of its operands, else NTT."""
    if x.op is _CONST:
        if y.op is _CONST:
            return folded(_FOLDS[op], x, residues_or_recipe(y), x.ring.moduli)
        domain = y.domain
    elif y.op is _CONST:
        domain = x.domain
    elif op is _MULTIPLY or x.domain is not y.domain:
        domain = _NTT
    else:
        domain = x.domain
    return Node(op, (x, y), (), x.ring, domain, x.device)


def _residues_of(c: Any, moduli: tuple[int, ...]) -> tuple[int, ...]:
    c = as_int(c, "constant")
    return tuple([c % q for q in moduli])


@lru_cache(maxsize=512)
def _residues_in(c: int, ring: RingSpec) -> tuple[int, ...]:
    """The residues of c: both polynomials of a ciphertext meet the same constant, and programs repeat theirs."""
    return tuple([c % q for q in ring.moduli])


def constant(c: Any, ring: RingSpec, device: str) -> Node:
    """The constant polynomial c, an int or a run-time scalar. ring: interned, as that of every node is."""
    if type(c) is int:
        return Node(_CONST, (), _residues_in(c, ring), ring, _COEFF, device)
    return const_node(deferred_call(_residues_of, c, ring.moduli), ring, _COEFF, device)


def const_node(residues: tuple[int, ...] | Deferred, ring: RingSpec, domain: Domain, device: str) -> Node:
    """A constant given by its residues, or by what computes them at each replay."""
    if isinstance(residues, Deferred):
        return Node(_CONST, (), residues.sample, ring, domain, device, recipe=residues)
    return Node(_CONST, (), residues, ring, domain, device)


def residues_or_recipe(node: Node) -> Any:
    """The residues of a constant, or how they are computed at each replay."""
    return node.params if node.recipe is None else node.recipe


def folded(f: Any, x: Node, *args: Any) -> Node:
    """The constant with residues f(residues of x, *args)."""
    return const_node(deferred_call(f, residues_or_recipe(x), *args), x.ring, x.domain, x.device)


def negated(a: tuple[int, ...], moduli: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([-x % q for x, q in zip(a, moduli, strict=True)])


def _added(a: tuple[int, ...], b: tuple[int, ...], moduli: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([(x + y) % q for x, y, q in zip(a, b, moduli, strict=True)])


def _subtracted(a: tuple[int, ...], b: tuple[int, ...], moduli: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([(x - y) % q for x, y, q in zip(a, b, moduli, strict=True)])


def _multiplied(a: tuple[int, ...], b: tuple[int, ...], moduli: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x * y % q for x, y, q in zip(a, b, moduli, strict=True)])


_FOLDS = {_ADD: _added, _SUBTRACT: _subtracted, _MULTIPLY: _multiplied}


def leaf(rows: NDArray[np.uint64], ring: RingSpec, domain: Domain, device: str | None, kind: Kind = Kind.POLY) -> Node:
    """A realized node that holds the words of `rows`; of a FLOAT its n doubles, since nobody reads the last word of a given one."""
    name = device_name(device)
    words = np.ascontiguousarray(rows).reshape(-1)
    backend = backend_of(name)
    buffer = pool_of(backend).take(words.size if kind is Kind.POLY else ring.n + 1)
    backend.copyin(buffer.memory, 0, words)
    return pinned(Node(_BUFFER, (), (), interned(ring), domain, name, kind=kind, realized=buffer))


def sample(params: tuple[Any, ...], ring: RingSpec, domain: Domain, device: str | None, seed: bytes | None) -> Node:
    """A random leaf; seed None: drawn by each replay."""
    return pinned(Node(Op.SAMPLE, (), params, interned(ring), domain, device_name(device), seed=seed))


def pinned(node: Node) -> Node:
    """`node`, which a captured function may reach freely if it is made outside of captures (`outside_capture`)."""
    node.pinned = capture.pinning()
    return node


def interned(ring: RingSpec) -> RingSpec:
    """The one object for this ring: nodes hold no other, so that most comparisons end at identity."""
    return ring.take(0, ring.limbs)


def device_name(device: str | None) -> str:
    """The device that a user named, or the default one. Raises BackendUnavailableError."""
    if device is None:
        from ren.backend.select import get_backend

        return get_backend(None).name
    return backend_of(device).name
