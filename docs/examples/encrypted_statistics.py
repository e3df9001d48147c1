#!/usr/bin/env python3
"""Mean, variance and correlation of two columns that the computing side never sees.

The client encrypts two columns of Fisher's iris data and sends them, with a public engine, as bytes. The server knows how many rows there are and nothing
else about them; it returns five encrypted sums, divided by that number. The client decrypts and takes the final quotient and root.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np
from common import print_table
from ren.schemes import ckks

DATA = Path(__file__).parent / "data" / "iris.csv"
COLUMNS = ("petal_length_cm", "petal_width_cm")
SLOTS = 256  # the smallest power of two that holds 150 rows: sums over the slots then take 8 rotations
PRECISION_BITS = 16
BOUND = 10.0  # centimetres: public knowledge about irises, not taken from the data


def read_columns() -> tuple[np.ndarray, np.ndarray]:
    with DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    x, y = (np.array([float(row[name]) for row in rows]) for name in COLUMNS)
    return x, y


def serve(engine_bytes: bytes, x_bytes: bytes, y_bytes: bytes, rows: int) -> list[bytes]:
    """The server: means of x, y, x*x, y*y and x*y, all encrypted. It holds no secret key."""
    engine = ckks.from_bytes(engine_bytes)
    with engine:
        x, y = ckks.from_bytes(x_bytes, engine), ckks.from_bytes(y_bytes, engine)
        means = [value.sum_slots() / rows for value in (x, y, x * x, y * y, x * y)]
        ckks.realize(*means)
        return [ckks.to_bytes(value) for value in means]


def run(device: str | None = None) -> None:
    """The whole job, both sides. Prints the comparison with NumPy; exits with an error when they differ too much."""
    x, y = read_columns()
    params = ckks.CKKSParams.for_(depth=2, precision_bits=PRECISION_BITS, slots=SLOTS)
    client = ckks.keygen(params, device)
    public = client.public(rotations=[1 << i for i in range(SLOTS.bit_length() - 1)], relinearization=True)

    def send(column: np.ndarray) -> bytes:
        return ckks.to_bytes(client.encrypt(client.encode(column, msg_bound=BOUND, slots=SLOTS)))

    sent = [ckks.to_bytes(public), send(x), send(y)]
    received = serve(*sent, rows=len(x))
    mx, my, mxx, myy, mxy = (
        client.decode(client.decrypt(ckks.from_bytes(data, client)), length=1)[0] for data in received
    )

    vx, vy = mxx - mx * mx, myy - my * my
    correlation = (mxy - mx * my) / math.sqrt(vx * vy)
    expected = [x.mean(), y.mean(), x.var(), y.var(), np.corrcoef(x, y)[0, 1]]
    found = [mx, my, vx, vy, correlation]
    names = [
        f"mean of {COLUMNS[0]}",
        f"mean of {COLUMNS[1]}",
        f"variance of {COLUMNS[0]}",
        f"variance of {COLUMNS[1]}",
        "correlation",
    ]

    print(f"{len(x)} rows, {params!r}")
    print(
        f"sent: engine {len(sent[0]) / 2**20:.1f} MiB, columns {len(sent[1]) / 2**20:.2f} MiB each; received: {sum(map(len, received)) / 2**20:.2f} MiB"
    )
    print()
    print_table(
        ["statistic", "encrypted", "NumPy", "difference"],
        [[n, f"{f:.8f}", f"{e:.8f}", f"{abs(f - e):.1e}"] for n, f, e in zip(names, found, expected, strict=True)],
    )
    # Each mean is precise to 2^-PRECISION_BITS for values in [-1, 1]: BOUND^2 times that for products; a statistic combines three of them.
    tolerance = 4 * BOUND**2 * 2.0**-PRECISION_BITS
    worst = max(abs(f - e) for f, e in zip(found, expected, strict=True))
    if not worst <= tolerance:
        raise SystemExit(f"the largest difference is {worst:.1e}, allowed are {tolerance:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=None, help="backend (default: the fastest that works)")
    run(parser.parse_args().device)


if __name__ == "__main__":
    main()
