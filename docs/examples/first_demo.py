#!/usr/bin/env python3
"""First encrypted results: x -> 2 x^2 - 1 ten times, with and without ren.jit, then statistics of real data.

Times five calls of each, decrypts every result and compares it with the plain computation. The error of the ten-fold iteration is that of its input times up to
4^10, so its precision is far below that of the scheme; the bound checked against comes from the noise model.
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from collections.abc import Callable
from time import perf_counter

import encrypted_statistics
import numpy as np
import ren
from common import add_engine_args, make_engine, print_table
from ren.errors import PossibleOverflowWarning
from ren.schemes import ckks
from ren.schemes.ckks import noise
from ren.schemes.ckks.ckks import Ciphertext, encode, encrypt
from ren.schemes.ckks.keys import context

STEPS = 10
CALLS = 5

# By its worst-case bound this circuit outgrows the modulus after eight steps. Its values stay in [-1, 1], as 2 x^2 - 1 does, so the warning says nothing here.
warnings.simplefilter("ignore", PossibleOverflowWarning)


def without_jit(x: Ciphertext) -> Ciphertext:
    for _ in range(STEPS):
        x = 2 * x * x - 1
    return x


@ren.jit
def with_jit(x: Ciphertext) -> Ciphertext:
    for _ in range(STEPS):
        x = 2 * x * x - 1
    return x


def predicted_error(params: ckks.CKKSParams) -> float:
    """A bound on the error of one slot: each step multiplies the error by at most 4 |x| <= 4 and adds that of a product."""
    error = noise.fresh(params, public=False).bound(params.slot_count)
    for level in range(STEPS):
        added = noise.relinearize_rescale(params, level, params.scale_at(level + 1)).bound(params.slot_count)
        error = 4 * error + 2 * error**2 + added
    return error


def measure(function: Callable[[Ciphertext], Ciphertext]) -> tuple[list[int], list[ckks.PrecisionReport]]:
    """Microseconds of five calls, and how precise each result was."""
    times, reports = [], []
    for _ in range(CALLS):
        data = [random.uniform(-1, 1) for _ in range(context().params.slot_count)]
        x = encrypt(encode(data, msg_bound=1.0))
        start = perf_counter()
        result = function(x).realize()
        times.append(int((perf_counter() - start) * 1e6))
        # At the last level nothing tells an overflow from a number, so decryption asks for what we know: the values stay in [-1, 1].
        found = ckks.decode(ckks.decrypt(result.assume_bound(1.0)))
        reports.append(ckks.precision_report(found, plain(np.array(data))))
    return times, reports


def plain(x: np.ndarray) -> np.ndarray:
    for _ in range(STEPS):
        x = 2 * x * x - 1
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_engine_args(parser)
    args = parser.parse_args()

    engine = make_engine(args)
    if engine.params.levels < STEPS:
        parser.error(f"the preset has {engine.params.levels} levels; the circuit takes {STEPS}")
    print(engine.params)
    print(f"device: {engine.device}")
    print()
    with engine:
        without_jit(encrypt(encode([0.5]))).realize()  # makes keys, loads kernels
        timings = {"without_jit": measure(without_jit), "with_jit": measure(with_jit)}
    print_table(
        ["call", *(f"{name} (us)" for name in timings)],
        [[i + 1, *(times[i] for times, _ in timings.values())] for i in range(CALLS)],
    )
    print()
    bound = predicted_error(engine.params)
    worst = max(report.max_error for _, reports in timings.values() for report in reports)
    mean = np.mean([report.mean_log2 for _, reports in timings.values() for report in reports])
    print(
        f"error after {STEPS} steps: mean 2^{mean:.1f}, worst 2^{math.log2(worst):.1f}; predicted at most 2^{math.log2(bound):.1f}"
    )
    if not worst <= bound:
        raise SystemExit("the decrypted results differ from the plain computation")
    print()
    print("Statistics of encrypted data")
    encrypted_statistics.run(args.device)


if __name__ == "__main__":
    main()
