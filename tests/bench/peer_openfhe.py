"""OpenFHE through its Python bindings, scales managed by hand (rescale is a call), as fast as it goes.

Circuit (i) runs under the library's default scaling: under manual scaling its result is lost (error above 0.1), which is no result to time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import openfhe as fhe
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

NAME = "OpenFHE"


def version() -> str:
    return metadata.version("openfhe")


class Contestant:
    security = "128"

    def __init__(self, s: ParameterSet) -> None:
        self.set = s
        self.n = 1 << s.log_n
        automatic = s.name == "J"
        p = fhe.CCParamsCKKSRNS()
        p.SetMultiplicativeDepth(s.depth)
        p.SetScalingModSize(s.scale_bits)
        # At n = 2^14 and depth 7 its check of security refuses a wider first prime and fewer digits.
        p.SetFirstModSize(55 if s.name == "A" else 60)
        p.SetNumLargeDigits(8 if s.name == "A" else 3)
        p.SetBatchSize(s.slots)
        p.SetRingDim(self.n)
        p.SetSecurityLevel(fhe.HEStd_128_classic)
        p.SetScalingTechnique(fhe.FLEXIBLEAUTOEXT if automatic else fhe.FIXEDMANUAL)
        self.cc = cc = fhe.GenCryptoContext(p)
        for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE):
            cc.Enable(feature)
        self.keys = cc.KeyGen()
        cc.EvalMultKeyGen(self.keys.secretKey)
        cc.EvalRotateKeyGen(self.keys.secretKey, list(range(-7, 0)))
        self.x, self.y = uniform(s.slots, 1), uniform(s.slots, 2)
        self.px = self.encode(self.x)
        self.cx, self.cy = self.encrypt(self.px), self.encrypt(self.encode(self.y))

    def encode(self, values: Vector, level: int = 0) -> Any:
        return self.cc.MakeCKKSPackedPlaintext(values, 1, level)

    def encrypt(self, p: Any) -> Any:
        return self.cc.Encrypt(self.keys.publicKey, p)

    def decrypt(self, c: Any) -> Vector:
        p = self.cc.Decrypt(self.keys.secretKey, c)
        p.SetLength(self.set.slots)
        return np.asarray(p.GetRealPackedValueArray())

    @staticmethod
    def decode(p: Any) -> Vector:
        return np.asarray(p.GetRealPackedValueArray())

    def _seven(self, c: Any) -> list[Any]:
        digits = self.cc.EvalFastRotationPrecompute(c)
        return [self.cc.EvalFastRotation(c, -r, 2 * self.n, digits) for r in range(1, 8)]

    def rows(self) -> dict[str, Row]:
        if self.set.name == "J":
            return self.chebyshev()
        cc, x, y, p = self.cc, self.cx, self.cy, self.px
        product = cc.EvalMult(x, y)
        calls: dict[str, Callable[[], Any]] = {
            "encode": lambda: self.encode(self.x),
            "encrypt (public key)": lambda: self.encrypt(p),
            "decrypt + decode": lambda: self.decrypt(x),
            "ct + ct": lambda: cc.EvalAdd(x, y),
            "ct * pt": lambda: cc.EvalMult(x, p),
            "ct * pt + rescale": lambda: cc.Rescale(cc.EvalMult(x, p)),
            "ct * ct + relinearize": lambda: cc.EvalMult(x, y),
            "ct * ct + relinearize + rescale": lambda: cc.Rescale(cc.EvalMult(x, y)),
            "rescale": lambda: cc.Rescale(product),
            "rotate by 1": lambda: cc.EvalRotate(x, -1),
            "7 rotations": lambda: self._seven(x),
        }
        rows = basic_rows(calls, self.decrypt, self.decode, self.x, self.y)
        rows["rescale"] = Row(calls["rescale"], self.decrypt, self.x * self.y)
        if self.set.name == "A":
            rows |= self.matvec()
        return rows

    def key_bytes(self) -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "keys")
            self.cc.SerializeEvalAutomorphismKey(file, fhe.BINARY, self.keys.secretKey.GetKeyTag())
            size = os.path.getsize(file) // 7
        return {"memory": size, "stored": size}

    def chebyshev(self) -> dict[str, Row]:
        cc = self.cc

        def run() -> Any:
            z = self.cx
            for _ in range(10):
                z = cc.EvalSub(cc.EvalMult(cc.EvalAdd(z, z), z), 1.0)
            return z

        row = Row(run, self.decrypt, chebyshev_ten(self.x))
        return {CIRCUIT_1: row, CIRCUIT_1_EAGER: row}

    def matvec(self) -> dict[str, Row]:
        cc, mv = self.cc, MatVec(self.set.slots)
        ct = self.encrypt(self.encode(mv.x))
        diagonals = [self.encode(d) for d in mv.diagonals]

        def run() -> Any:
            acc = cc.EvalMult(ct, diagonals[0])
            for rotated, d in zip(self._seven(ct), diagonals[1:]):  # noqa: B905 - Python 3.10 may run this file
                cc.EvalAddInPlace(acc, cc.EvalMult(rotated, d))
            acc = cc.Rescale(acc)
            acc = cc.EvalAdd(acc, self.encode(mv.bias, acc.GetLevel()))
            q = cc.Rescale(cc.EvalMult(cc.EvalAdd(acc, 0.25), cc.EvalSub(acc, 0.5)))
            return cc.Rescale(cc.EvalMult(q, mv.gain))

        row = Row(run, self.decrypt, mv.expected)
        return {CIRCUIT_2: row, CIRCUIT_2_COMPILED: row}
