"""What CKKS costs on this machine's GPU, beside what the GPU could do.

    python tests/bench/gpu.py [--set A,B,C,18,34] [--rows rotate,rescale] [--runs 200] [--no-circuit]
    python tests/bench/gpu.py --dry                       # no GPU: launches and bytes of each row only

First the ceilings, measured: device bandwidth (a copy of 1 GiB) and butterflies in registers, as instructions a second.
Then rows of operations as plans without an engine around them: microseconds of one replay among many in flight, of one that somebody waits for, and of the
same launches issued one by one; kernel launches; and three fractions: bytes that must move at least (operands and results once, intermediate values not)
over the measured bandwidth, instructions (gpu_work.py says how they are counted) over the measured rate, and the larger of both: how much of what the card
allows is reached. Last the ten-fold 2 x x - 1 at n = 2^16 with 17 levels, with the same figures and its error.

Sets 18 and 34 are rings of bootstrapping size: n = 2^16, 18 limbs and 3 special ones (six digits), 31 and 3 (eleven digits).
Never run on a GPU by its authors so far. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren.backend.select import facts, get_backend
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.device import Launch
from ren_backend_cuda.source import KERNELS, declarations
from ren_backend_cuda.tables import quotient

sys.path.insert(0, str(Path(__file__).parent))

import operations  # noqa: E402
from gpu_work import IN_REGISTERS, instructions, least_bytes  # noqa: E402
from operations import Operations, Plan  # noqa: E402

SETS = {
    **operations.SETS,
    "18": (1 << 16, (50, *(40,) * 17), (50,) * 3, 3),
    "34": (1 << 16, (50, *(40,) * 30), (50,) * 3, 3),
}


# -- without a GPU ---------------------------------------------------------------------------------------------------


class DryMemory:
    def __init__(self, device: DryDevice, words: int) -> None:
        self.device, self.words, self.address = device, words, 256


class DryRecording:
    def run(self) -> None:
        """There is nothing to run on."""


class DryDevice:
    """A device that has neither memory nor arithmetic: plans are made for it, not run."""

    name = "dry"

    def alloc(self, words: int) -> DryMemory:
        return DryMemory(self, words)

    def upload(self, memory: DryMemory, offset: int, data: NDArray[np.uint64]) -> None:
        pass

    def download(self, memory: DryMemory, offset: int, words: int) -> NDArray[np.uint64]:
        return np.zeros(words, np.uint64)

    def function(self, source: str, defines: Mapping[str, int], kernel: str) -> Any:
        return declarations((KERNELS / f"{source}.cu").read_text())[kernel]

    def record(self, launches: Sequence[Launch]) -> DryRecording:
        return DryRecording()

    def synchronize(self) -> None:
        pass


# -- rows -------------------------------------------------------------------------------------------------------------


def all_rows(ops: Operations) -> dict[str, Callable[[], Plan]]:
    def transform(kernel: str) -> Plan:
        p = Plan(ops.backend)
        x = p.poly(ops.ring)
        p.add(kernel, ops.ring, (), x, outs=(p.poly(ops.ring),))
        return p

    def add() -> Plan:
        p = Plan(ops.backend)
        for _ in range(2):
            x, y = p.poly(ops.ring), p.poly(ops.ring)
            program = (2, 0, (("add", 0, 1),), (2,), Domain.NTT)
            p.add("elementwise", ops.ring, program, x, y, outs=(p.poly(ops.ring),))
        return p

    def rotate() -> Plan:
        """As the engine plans it: intermediate values are temporaries, one for each component."""
        p, ring, k = Plan(ops.backend), ops.ring, len(ops.special)
        b, a = p.poly(ring), p.poly(ring)
        for x, z in zip(ops.switch(p, a), ((b,), ()), strict=True):
            p.slots.append(Slot(SlotKind.TEMPORARY, ring.limbs * ring.n))
            t = Operand(len(p.slots) - 1, 0, ring.limbs * ring.n)
            p.add("mod_down", ops.wide, (k, ring.limbs if z else 0, Domain.NTT), x, *z, outs=(t,))
            p.add("automorphism", ring, (5, Domain.NTT), t, outs=(p.poly(ring),))
        return p

    return {
        "ct + ct": add,
        "NTT of all limbs": lambda: transform("ntt"),
        "inverse NTT of all limbs": lambda: transform("intt"),
        **ops.rows(),
        "rotate": rotate,
    }


# -- on a GPU --------------------------------------------------------------------------------------------------------


class Gpu:
    """The device, and the same one with launches issued one by one."""

    def __init__(self) -> None:
        import cupy

        from ren_backend_cuda import cupy_device

        class OneByOne(cupy_device.CupyDevice):
            def record(self, launches: Sequence[Launch]) -> Any:
                calls = [self._call(launch) for launch in launches]
                return _Loose(self, calls, tuple(launches))

        self.cupy = cupy
        self.device = cupy_device.CupyDevice()
        self.loose = OneByOne()

    def instruction_rate(self) -> float:
        """Instructions a second while nothing but butterflies runs."""
        from ren_backend_cuda.compiler import read_sources

        text = (Path(__file__).parent / "gpu_rates.cu").read_text()
        headers = read_sources("self_check")[1]
        cubin, _ = self.device._compiler.compile(
            "gpu_rates.cu", text, headers, (f"--gpu-architecture={self.device.architecture}", "--std=c++17")
        )
        path = Path(self._folder()) / "gpu_rates.cubin"
        path.write_bytes(cubin)
        function = self.cupy.RawModule(path=str(path)).get_function("butterflies")
        blocks, rounds = 132 * 16, 20_000
        q = next(ntt_primes_below(1 << 61, 1 << 16))
        w = q // 3
        fixed = np.uint64(q), np.uint64(w), np.uint64(quotient(w, q)), np.uint32(rounds)
        out = self.device.alloc(blocks * 256)
        call = lambda: function((blocks,), (256,), (np.uint64(out.address), *fixed))  # noqa: E731
        return blocks * 256 * rounds * 4 * IN_REGISTERS / self.seconds(self.device, call, 3)

    def _folder(self) -> str:
        import tempfile

        if not hasattr(self, "_kept"):
            self._kept = tempfile.TemporaryDirectory()
        return self._kept.name

    def bandwidth(self) -> float:
        """Bytes a second of a copy, read and write counted."""
        words = 1 << 27
        x, y = self.device.alloc(words), self.device.alloc(words)
        (y.pointer).memset_async(0, 8 * words, self.device._stream)
        call = lambda: x.pointer.copy_from_device_async(y.pointer, 8 * words, self.device._stream)  # noqa: E731
        return 16 * words / self.seconds(self.device, call, 10)

    def seconds(self, device: Any, call: Callable[[], object], runs: int) -> float:
        """Seconds of one call among `runs` in flight, by the device's clock."""
        start, stop = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        with device.active() as stream:
            call()
            stream.synchronize()
            start.record(stream)
            for _ in range(runs):
                call()
            stop.record(stream)
            stop.synchronize()
        return self.cupy.cuda.get_elapsed_time(start, stop) / 1e3 / runs

    def waited(self, call: Callable[[], object]) -> float:
        """Seconds of one call that somebody waits for, by the host's clock: the best of 20."""
        found = []
        for _ in range(20):
            begin = time.perf_counter()
            call()
            self.device.synchronize()
            found.append(time.perf_counter() - begin)
        return min(found)


@dataclass(frozen=True)
class Limits:
    """What the card can do, measured."""

    bytes_per_second: float
    instructions_per_second: float

    def shares(self, units: Sequence[ExecUnit], seconds: float) -> str:
        moved = least_bytes(units) / self.bytes_per_second / seconds
        issued = instructions(units) / self.instructions_per_second / seconds
        return f"bandwidth {moved:5.1%}, instructions {issued:5.1%}, of what the card allows {max(moved, issued):5.1%}"


class _Loose:
    """Launches issued one by one, at each run."""

    def __init__(self, device: Any, calls: Sequence[tuple[Any, ...]], launches: tuple[Launch, ...]) -> None:
        self.device, self.calls, self.launches = device, calls, launches

    def run(self) -> None:
        with self.device.active():
            for kernel, grid, block, arguments, shared_bytes in self.calls:
                kernel(grid, block, arguments, shared_mem=shared_bytes)


def circuit(gpu: Gpu, limits: Limits, n: int = 1 << 16, levels: int = 17, times: int = 10, toy: bool = False) -> str:
    """The first document's timing example: ten times 2 x x - 1, n = 2^16, 17 levels, replayed."""
    import ren
    from ren.schemes import ckks

    params = ckks.CKKSParams.build(n=n, levels=levels, scale_bits=40, toy=toy)
    engine = ckks.Engine(params, device="cuda")
    v = np.random.default_rng(0).uniform(-1, 1, engine.num_slots)

    def chebyshev(x: Any) -> Any:
        for _ in range(times):
            x = 2 * x * x - 1
        return x

    backend: Any = get_backend("cuda")
    plans: list[tuple[Sequence[ExecUnit], Any]] = []
    graph = backend.graph

    def noting(units: Sequence[ExecUnit], slots: Sequence[Slot]) -> Any:
        plans.append((units, graph(units, slots)))
        return plans[-1][1]

    with engine:
        step, x = ren.jit(chebyshev), ckks.encrypt(ckks.encode(v)).realize()
        backend.synchronize()
        backend.graph = noting
        try:
            step(x)
        finally:
            del backend.graph
        units, runner = max(plans, key=lambda plan: len(plan[0]))
        backend.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            y = step(x)
        backend.synchronize()
        took = (time.perf_counter() - begin) / 10
        error = float(np.abs(np.asarray(ckks.decode(ckks.decrypt(y))).real - chebyshev(v)).max())
    return (
        f"{times} times 2 x x - 1, n = {n}, {levels} levels, replay: {1e3 * took:.2f} ms, {runner.launches} launches; "
        f"{limits.shares(units, took)}; largest error {error:.1e}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="A,B,C,18,34", help="comma-separated: " + ", ".join(SETS))
    parser.add_argument("--rows", default="", help="comma-separated substrings; empty = all")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--no-circuit", action="store_true")
    parser.add_argument("--dry", action="store_true", help="launches and bytes only; needs no GPU")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.set.split(",") if name not in SETS]
    if unknown:
        parser.error(f"argument --set: there is no {', '.join(unknown)}, only {', '.join(SETS)}")
    gpu, limits = None, None
    if not options.dry:
        found = facts("cuda")
        if not found.device_works:
            print(
                f"There is no GPU to measure: {found.reason}. {found.fix}\n--dry counts launches and bytes without one."
            )
            return 1
        gpu = Gpu()
        limits = Limits(gpu.bandwidth(), gpu.instruction_rate())
        print(
            f"{gpu.device.name}: copy {limits.bytes_per_second / 1e12:.2f} TB/s, "
            f"butterflies {limits.instructions_per_second / 1e12:.1f} T instructions/s"
        )
    backend = CudaBackend(gpu.device if gpu else DryDevice())
    for name in options.set.split(","):
        ops = Operations(SETS[name], backend)
        print(f"set {name}: n = {ops.n}, {ops.ring.limbs} limbs + {len(ops.special)} special ones")
        for row, make in all_rows(ops).items():
            if options.rows and not any(part in row for part in options.rows.split(",")):
                continue
            plan = make()
            run = plan.runner()
            launches = backend.graph(plan.units, plan.slots).launches
            size, work = least_bytes(plan.units), instructions(plan.units)
            line = f"  {row:32} {launches:4} launches, {size / 1e6:8.2f} MB and {work / 1e6:8.1f} M instructions at least"
            if gpu and limits:
                replay = gpu.seconds(gpu.device, run, options.runs)
                loose_ops = Operations(SETS[name], CudaBackend(gpu.loose))
                loose = gpu.seconds(gpu.loose, all_rows(loose_ops)[row]().runner(), max(options.runs // 10, 5))
                line += (
                    f"  replay {1e6 * replay:8.1f} us, waited for {1e6 * gpu.waited(run):8.1f} us, "
                    f"one by one {1e6 * loose:8.1f} us; {limits.shares(plan.units, replay)}"
                )
            print(line, flush=True)
    if gpu and limits and not options.no_circuit:
        print(circuit(gpu, limits))
    return 0


if __name__ == "__main__":
    sys.exit(main())
