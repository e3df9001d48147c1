"""`ren bench`: what CKKS operations take on this machine, beside what the machine could do.

Two fractions per operation, for a device that knows its limits. memory: the bytes that its plan moves at the bandwidth measured on large arrays,
over its time; above 100 % the caches served it. butterflies: the butterflies of its transforms at the rate that registers alone allow, over its time;
what is missing to 100 % is other arithmetic, memory and calls. An operation with both far below 100 % is bound by neither.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ren.backend.capability import Limits, Measurable
from ren.backend.select import get_backend
from ren.backend.threads import get_threads
from ren.jit_api import jit
from ren.schemes import ckks
from ren.version import VERSION

#: The parameters that users start with, and the smallest usual set: n = 2^14, seven levels.
PRESETS = ("default", "slots8192-scale40-levels7")

_FEWEST, _MOST = 7, 200


def run(device: str | None = None, presets: Iterable[str] = PRESETS, seconds: float = 0.4) -> dict[str, Any]:
    """Times in milliseconds of each preset's operations, as plain data. seconds: how long to time each."""
    backend = get_backend(device)
    limits = backend.limits() if isinstance(backend, Measurable) else None
    report: dict[str, Any] = {
        "ren": VERSION,
        "device": backend.name,
        "threads": get_threads(),
        "limits": None,
        "sets": [],
    }
    if limits is not None:
        report["limits"] = {
            "bytes_per_second": limits.bytes_per_second,
            "butterflies_per_second": limits.butterflies_per_second,
        }
    for preset in presets:
        params = ckks.CKKSParams.preset(preset)
        rows = [_row(*operation, limits, params.ring.n, seconds) for operation in _operations(params, backend.name)]
        report["sets"].append(
            {"preset": preset, "n": params.ring.n, "primes": len(params.chain), "toy": params.toy, "rows": rows}
        )
    return report


def text(report: dict[str, Any]) -> str:
    """The report as tables."""
    threads = report["threads"]
    lines = [f"Ren {report['ren']} on {report['device']}, {threads} thread{'s' if threads > 1 else ''}"]
    limits = report["limits"]
    if limits is not None:
        memory, butterflies = limits["bytes_per_second"] / 1e9, limits["butterflies_per_second"] / 1e9
        lines.append(f"limits of one core: memory {memory:.1f} GB/s, {butterflies:.2f} butterflies per ns")
    for s in report["sets"]:
        security = "no security" if s["toy"] else "128-bit security"
        lines += ["", f"{s['preset']}: n = {s['n']}, {s['primes']} primes, {security}"]
        lines.append(f"{'operation':<36}{'median ms':>11}{'least':>9}{'memory':>9}{'butterflies':>13}")
        for row in s["rows"]:
            shares = "".join(
                f"{'-' if row[key] is None else f'{100 * row[key]:.0f} %':>{width}}"
                for key, width in (("memory", 9), ("butterflies", 13))
            )
            lines.append(f"{row['operation']:<36}{row['median_ms']:>11.3f}{row['least_ms']:>9.3f}{shares}")
    return "\n".join(lines)


def _operations(
    params: ckks.CKKSParams, device: str
) -> Iterable[tuple[str, Callable[[], Any], Callable[..., Any] | None, tuple[Any, ...]]]:
    """(name, call, the same as a function of ciphertexts for its plan, its arguments)."""
    engine = ckks.Engine(params, device=device)
    values = np.random.default_rng(1).uniform(-1.0, 1.0, params.slot_count)
    with engine:
        plain = ckks.encode(values, msg_bound=1.0)
        x, y = ckks.encrypt(plain), ckks.encrypt(plain)
        yield "encode", lambda: ckks.encode(values, msg_bound=1.0), None, ()
        yield "encrypt (public key)", lambda: ckks.encrypt(plain, engine.public_key), None, ()
        yield "decrypt + decode", lambda: ckks.decode(ckks.decrypt(x)), None, ()
        for name, function, arguments in (
            ("ciphertext + ciphertext", lambda a, b: a + b, (x, y)),
            ("ciphertext * plaintext, rescaled", lambda a: a * plain, (x,)),
            ("ciphertext * ciphertext, rescaled", lambda a, b: a * b, (x, y)),
            ("rotation", lambda a: a.rotate(1), (x,)),
        ):
            yield name, lambda f=function, given=arguments: f(*given).realize(), function, arguments  # type: ignore[misc]
        yield "one rotation key", lambda: engine.generate_rotation_key(1), None, ()


def _row(
    name: str,
    call: Callable[[], Any],
    function: Callable[..., Any] | None,
    arguments: tuple[Any, ...],
    limits: Limits | None,
    n: int,
    seconds: float,
) -> dict[str, Any]:
    times = _times(call, seconds)
    row: dict[str, Any] = {
        "operation": name,
        "median_ms": statistics.median(times) * 1e3,
        "least_ms": min(times) * 1e3,
        "memory": None,
        "butterflies": None,
    }
    if limits is not None and function is not None:
        cost = jit(function).lower(*arguments).cost
        took = statistics.median(times)
        row["memory"] = 8 * cost.words / limits.bytes_per_second / took
        row["butterflies"] = cost.transforms * (n // 2) * (n.bit_length() - 1) / limits.butterflies_per_second / took
    return row


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    call()  # makes keys and plans, compiles
    call()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < _FEWEST or (time.perf_counter() < until and len(times) < _MOST):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        del result
    return times
