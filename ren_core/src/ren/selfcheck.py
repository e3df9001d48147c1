"""`ren check`: encrypt, multiply, rotate, decrypt once on a device, and compare with the plain computation.

The parameters are a toy set: this proves that the installation works end to end, within what the noise model predicts, in well under a second. It says
nothing about security or speed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ren.errors import RenError


@dataclass(frozen=True, slots=True)
class CheckResult:
    """text: what was measured, or what went wrong. seconds: for all of it, compilation of kernels included."""

    device: str
    ok: bool
    text: str
    seconds: float


def check_device(device: str) -> CheckResult:
    """Run the check on `device`. Every failure is a result, not an exception (KeyboardInterrupt and the like pass)."""
    from ren.schemes.ckks.engine import Engine
    from ren.schemes.ckks.noise import chain_of_products
    from ren.schemes.ckks.params import CKKSParams

    started = time.perf_counter()
    params = CKKSParams.python_test()
    slots = params.slot_count
    allowed = next(islice(chain_of_products(params), 1, None)).bound(slots)
    x = np.linspace(-1.0, 1.0, slots)
    y = np.cos(np.arange(slots))
    try:
        engine = Engine(params, device)
        with engine:
            product = engine.rotate(engine.mul(engine.encrypt(engine.encode(x)), engine.encrypt(engine.encode(y))), 1)
            found = np.asarray(engine.decode(engine.decrypt(product)))
        error = float(np.max(np.abs(found - np.roll(x * y, 1))))
    except RenError as failure:
        return CheckResult(device, False, f"{failure} [{failure.code}]", time.perf_counter() - started)
    except Exception as failure:
        return CheckResult(device, False, f"{type(failure).__name__}: {failure}", time.perf_counter() - started)
    seconds = time.perf_counter() - started
    text = f"encrypted x*y rotated by 1: largest error {error:.1e}, predicted at most {allowed:.1e}; {seconds:.2f} s"
    return CheckResult(device, error <= allowed, text, seconds)
