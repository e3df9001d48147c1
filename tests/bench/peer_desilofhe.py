"""desilofhe's CPU engine, one thread. It picks the ring from the depth, and its product always rescales."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import desilofhe
import numpy as np
from workloads import (
    CIRCUIT_1,
    CIRCUIT_1_EAGER,
    CIRCUIT_2,
    CIRCUIT_2_COMPILED,
    MatVec,
    ParameterSet,
    Row,
    Vector,
    basic_rows,
    chebyshev_ten,
    uniform,
)

NAME = "desilofhe"


def version() -> str:
    return metadata.version("desilofhe")


class Contestant:
    note = (
        "keeps ciphertexts as coefficients: its rescale has no transforms, which its products pay for; "
        "fresh ciphertexts decrypt far more exactly than noise of the usual size allows"
    )

    def __init__(self, s: ParameterSet) -> None:
        self.set = s
        self.engine = e = desilofhe.Engine(max_level=s.depth, mode="cpu", thread_count=1)
        if e.slot_count != s.slots:
            raise RuntimeError(f"desilofhe chose {e.slot_count} slots for depth {s.depth}; set {s.name} has {s.slots}")
        self.security = "not stated"
        self.secret = e.create_secret_key()
        self.public, self.relin = e.create_public_key(self.secret), e.create_relinearization_key(self.secret)
        self.rotations = {r: e.create_fixed_rotation_key(self.secret, r) for r in (1, *range(-7, 0))}
        self.x, self.y = uniform(s.slots, 1), uniform(s.slots, 2)
        self.px = e.encode(self.x)
        self.cx, self.cy = e.encrypt(self.x, self.public), e.encrypt(self.y, self.public)

    def decrypt(self, c: Any) -> Vector:
        return np.asarray(self.engine.decrypt(c, self.secret)).real

    def rows(self) -> dict[str, Row]:
        if self.set.name == "J":
            return self.chebyshev()
        e = self.engine
        seven = [self.rotations[-r] for r in range(1, 8)]
        calls = {
            "encode": lambda: e.encode(self.x),
            "encrypt (public key)": lambda: e.encrypt(self.px, self.public),
            "decrypt + decode": lambda: e.decrypt(self.cx, self.secret),
            "ct + ct": lambda: e.add(self.cx, self.cy),
            "ct * pt + rescale": lambda: e.multiply(self.cx, self.px),
            "ct * ct + relinearize + rescale": lambda: e.multiply(self.cx, self.cy, self.relin),
            "rescale": lambda: e.rescale(self.cx),
            "rotate by 1": lambda: e.rotate(self.cx, self.rotations[-1]),
            "7 rotations": lambda: e.rotate_many(self.cx, seven),
            "relinearization key": lambda: e.create_relinearization_key(self.secret),
            "one rotation key": lambda: e.create_fixed_rotation_key(self.secret, 1),
        }
        rows = basic_rows(calls, self.decrypt, lambda p: np.asarray(e.decode(p)).real, self.x, self.y)
        rows["decrypt + decode"] = Row(calls["decrypt + decode"], lambda values: np.asarray(values).real, self.x)
        if self.set.name == "A":
            rows |= self.matvec()
        return rows

    def key_bytes(self) -> dict[str, int]:
        key = self.rotations[1]
        return {"memory": int(key.nbytes), "stored": len(self.engine.serialize_fixed_rotation_key(key))}

    def chebyshev(self) -> dict[str, Row]:
        e = self.engine

        def run() -> Any:
            z = self.cx
            for _ in range(10):
                z = e.subtract(e.multiply(e.add(z, z), z, self.relin), 1.0)
            return z

        row = Row(run, self.decrypt, chebyshev_ten(self.x))
        return {CIRCUIT_1: row, CIRCUIT_1_EAGER: row}

    def matvec(self) -> dict[str, Row]:
        e, mv = self.engine, MatVec(self.set.slots)
        ct = e.encrypt(mv.x, self.public)
        diagonals, bias = [e.encode(d) for d in mv.diagonals], e.encode(mv.bias)
        seven = [self.rotations[-r] for r in range(1, 8)]  # its positive steps rotate to the left

        def run() -> Any:
            acc = e.multiply(ct, diagonals[0])
            for rotated, d in zip(e.rotate_many(ct, seven), diagonals[1:], strict=True):
                acc = e.add(acc, e.multiply(rotated, d))
            acc = e.add(acc, bias)
            return e.multiply(e.multiply(e.add(acc, 0.25), e.subtract(acc, 0.5), self.relin), mv.gain)

        row = Row(run, self.decrypt, mv.expected)
        return {CIRCUIT_2: row, CIRCUIT_2_COMPILED: row}
