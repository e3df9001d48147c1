"""Realizing nodes: normalise, find or make a plan, run it, hand the buffers to the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ren.backend.buffer import Buffer
from ren.backend.protocol import Backend
from ren.backend.select import get_backend
from ren.engine import capture, checked
from ren.engine.locks import Guarded
from ren.engine.plan import Plan
from ren.engine.plan_cache import PLANS
from ren.engine.schedule import Normal, normalise
from ren.graph import Node
from ren.numtheory.sampling import fresh_seed
from ren.ops import Op


class _Seeding(Guarded):
    """Gives a SAMPLE leaf that lost its captured function one seed, however many threads ask."""

    def seed(self, node: Node) -> bytes:
        with self._lock:
            if node.seed is None:
                node.seed = fresh_seed()
            return node.seed


_seeding = _Seeding()


def backend_of(device: str) -> Backend:
    """The backend that owns `device`."""
    return get_backend(device)


def realize(nodes: Sequence[Node]) -> None:
    """Compute `nodes` as one schedule per device. Constants stay what they are: there is nothing to compute.

    Raises RuntimeError inside a captured function. After any error the nodes are as they were.
    """
    capture.refuse_realize()
    todo = [n for n in nodes if n.realized is None and n.op is not Op.CONST]
    if not todo:
        return
    devices = {n.device for n in todo}
    for device in devices:
        of_device = todo if len(devices) == 1 else [n for n in todo if n.device == device]
        compute(of_device, device)


def compute(nodes: Sequence[Node], device: str) -> None:
    """Compute nodes of one device and hand them their buffers, all after everything ran: nobody sees half a result."""
    normal = normalise(nodes)
    plan = PLANS.plan(normal.key, backend_of(device))
    for node, buffer in zip(nodes, run_plan(plan, normal), strict=True):
        node.set_realized(buffer)
        if capture.pinning():
            node.pinned = True


def run_plan(plan: Plan, normal: Normal) -> list[Buffer]:
    """Run a plan on the leaves of a graph of its shape."""
    seeds = [seed_of(node) for node in normal.randoms]
    return plan.run(normal.buffers, [node.params for node in normal.scalars], seeds, checked.watcher())


def seed_of(node: Node) -> bytes:
    """The seed of a SAMPLE leaf. One without a seed belongs to a captured function; reached from outside it is drawn once, here."""
    seed = node.seed
    return seed if seed is not None else _seeding.seed(node)
