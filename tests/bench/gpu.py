"""What CKKS costs on this machine's GPU, beside what the GPU could do.

    python tests/bench/gpu.py [--set A,B,C,18,34] [--rows rotate,rescale] [--runs 200] [--no-circuit]
    python tests/bench/gpu.py --dry                       # no GPU: launches and bytes of each row only

First the ceilings, measured: device bandwidth (a copy of 1 GiB), and rates of wide multiplies, additions and double multiply-adds.
Then rows of operations as plans without an engine around them: microseconds of one replay among many in flight, of one that somebody waits for, and of the
same launches issued one by one; kernel launches; and two fractions: bytes that must move at least (operands and results once, intermediate values not) over
the measured bandwidth, and multiplies of all butterflies over the measured rate. Last the ten-fold 2 x x - 1 at n = 2^16 with 17 levels, with its error.

Sets 18 and 34 are rings of bootstrapping size: n = 2^16, 18 limbs and 3 special ones (six digits), 31 and 3 (eleven digits).
Never run on a GPU by its authors so far. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren.backend.select import facts, get_backend
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.ops import Domain
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.device import Launch
from ren_backend_cuda.source import KERNELS, declarations

sys.path.insert(0, str(Path(__file__).parent))

import operations  # noqa: E402
from operations import Operations, Plan  # noqa: E402

SETS = {
    **operations.SETS,
    "18": (1 << 16, (50, *(40,) * 17), (50,) * 3, 3),
    "34": (1 << 16, (50, *(40,) * 30), (50,) * 3, 3),
}
#: 32-bit multiplies of one 64-bit Shoup butterfly, counted in machine code for compute capability 9.0.
MULTIPLIES_PER_BUTTERFLY = 10


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


# -- what a plan has to do -------------------------------------------------------------------------------------------


def least_bytes(plan: Plan) -> int:
    """Bytes of every operand that a plan reads before it writes it, and of every result that it does not read again."""
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    results: dict[int, int] = {}
    for unit in plan.units:
        for o in (*unit.inputs, *unit.scalars):
            if o.slot not in written:
                read[o.slot] = max(read.get(o.slot, 0), o.words)
            results.pop(o.slot, None)
        for o in unit.outputs:
            written[o.slot] = results[o.slot] = o.words
    return 8 * (sum(read.values()) + sum(results.values()))


def transforms(unit: ExecUnit) -> int:
    """Limb transforms that a unit cannot do without."""
    limbs, p = unit.ring.limbs, unit.params
    if unit.kernel in ("ntt", "intt"):
        return limbs
    if unit.kernel == "mod_down" and p[2] is Domain.NTT:
        return limbs  # the dropped limbs back, the kept ones forward
    if unit.kernel in ("decompose", "key_switch"):
        alpha, special, domain = p[:3]
        digits = -(-limbs // alpha)
        known = limbs if domain is Domain.NTT else 0
        return known + digits * (limbs + len(special)) - known
    return 0


def multiplies(plan: Plan) -> int:
    """32-bit multiplies of all butterflies of a plan: the larger part of its instructions."""
    n = plan.units[0].ring.n
    butterflies = n // 2 * (n.bit_length() - 1)
    return MULTIPLIES_PER_BUTTERFLY * butterflies * sum(transforms(u) for u in plan.units)


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

    def rate(self, kernel: str, per_thread: int) -> float:
        """Instructions a second of one of gpu_rates.cu."""
        from ren_backend_cuda.compiler import read_sources

        text = (Path(__file__).parent / "gpu_rates.cu").read_text()
        headers = read_sources("self_check")[1]
        cubin, _ = self.device._compiler.compile(
            "gpu_rates.cu", text, headers, (f"--gpu-architecture={self.device.architecture}", "--std=c++17")
        )
        path = Path(self._folder()) / "gpu_rates.cubin"
        path.write_bytes(cubin)
        function = self.cupy.RawModule(path=str(path)).get_function(kernel)
        blocks, rounds = 132 * 16, 20_000
        out = self.device.alloc(blocks * 256)
        call = lambda: function((blocks,), (256,), (np.uint64(out.address), np.uint32(rounds)))  # noqa: E731
        return blocks * 256 * rounds * per_thread / self.seconds(self.device, call, 3)

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


class _Loose:
    """Launches issued one by one, at each run."""

    def __init__(self, device: Any, calls: Sequence[tuple[Any, ...]], launches: tuple[Launch, ...]) -> None:
        self.device, self.calls, self.launches = device, calls, launches

    def run(self) -> None:
        with self.device.active():
            for kernel, grid, block, arguments, shared_bytes in self.calls:
                kernel(grid, block, arguments, shared_mem=shared_bytes)


def circuit(gpu: Gpu) -> None:
    """The first document's timing example: ten times 2 x x - 1, n = 2^16, 17 levels, replayed."""
    import ren
    from ren.schemes import ckks

    params = ckks.CKKSParams.build(n=1 << 16, levels=17, scale_bits=40)
    engine = ckks.Engine(params, device="cuda")
    v = np.random.default_rng(0).uniform(-1, 1, engine.num_slots)

    def ten(x: Any) -> Any:
        for _ in range(10):
            x = 2 * x * x - 1
        return x

    with engine:
        step, x = ren.jit(ten), ckks.encrypt(ckks.encode(v)).realize()
        wait = get_backend("cuda").synchronize
        step(x)
        wait()
        begin = time.perf_counter()
        for _ in range(10):
            y = step(x)
        wait()
        took = (time.perf_counter() - begin) / 10
        error = float(np.abs(np.asarray(ckks.decode(ckks.decrypt(y))).real - ten(v)).max())
    print(f"ten times 2 x x - 1, n = 2^16, 17 levels, replay: {1e3 * took:.2f} ms, largest error {error:.1e}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="A,B,C,18,34", help="comma-separated: " + ", ".join(SETS))
    parser.add_argument("--rows", default="", help="comma-separated substrings; empty = all")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--no-circuit", action="store_true")
    parser.add_argument("--dry", action="store_true", help="launches and bytes only; needs no GPU")
    options = parser.parse_args()
    gpu = None
    if not options.dry:
        found = facts("cuda")
        if not found.device_works:
            print(
                f"There is no GPU to measure: {found.reason}. {found.fix}\n--dry counts launches and bytes without one."
            )
            return 1
        gpu = Gpu()
        wide, bandwidth = gpu.rate("wide_multiplies", 8), gpu.bandwidth()
        print(
            f"{gpu.device.name}: copy {bandwidth / 1e12:.2f} TB/s, wide multiplies {wide / 1e12:.1f} T/s, "
            f"additions {gpu.rate('additions', 16) / 1e12:.1f} T/s, "
            f"double multiply-adds {gpu.rate('double_multiply_adds', 8) / 1e12:.1f} T/s"
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
            size = least_bytes(plan)
            line = f"  {row:32} {launches:4} launches, {size / 1e6:8.2f} MB at least"
            if gpu:
                replay = gpu.seconds(gpu.device, run, options.runs)
                loose_ops = Operations(SETS[name], CudaBackend(gpu.loose))
                loose = gpu.seconds(gpu.loose, all_rows(loose_ops)[row]().runner(), max(options.runs // 10, 5))
                line += (
                    f"  replay {1e6 * replay:8.1f} us, waited for {1e6 * gpu.waited(run):8.1f} us, "
                    f"one by one {1e6 * loose:8.1f} us; bandwidth {size / bandwidth / replay:5.0%}, "
                    f"multiplies {multiplies(plan) / wide / replay:5.0%}"
                )
            print(line, flush=True)
    if gpu and not options.no_circuit:
        circuit(gpu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
