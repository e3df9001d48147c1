"""Microsoft SEAL through the low-level bindings that tenseal ships."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import tenseal.sealapi as seal
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

NAME = "SEAL"


def version() -> str:
    return f"tenseal {metadata.version('tenseal')}"


class Contestant:
    """60-bit first and special primes, SEAL's own advice; one digit per prime. Security enforced up to n = 2^15 (its table ends there)."""

    def __init__(self, s: ParameterSet) -> None:
        self.set = s
        self.scale = 2.0**s.scale_bits
        self.n = 1 << s.log_n
        level = seal.SEC_LEVEL_TYPE.TC128 if s.log_n <= 15 else seal.SEC_LEVEL_TYPE.NONE
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        parms.set_poly_modulus_degree(self.n)
        parms.set_coeff_modulus(seal.CoeffModulus.Create(self.n, [60] + [s.scale_bits] * s.depth + [60]))
        self.context = seal.SEALContext(parms, True, level)
        if not self.context.parameters_set():
            raise RuntimeError(f"SEAL refuses set {s.name}: {self.context.parameters_error_message()}")
        self.security = "128" if s.log_n <= 15 else "not enforced"
        keys = seal.KeyGenerator(self.context)
        self.keys, self.public = keys, seal.PublicKey()
        self.relin, self.galois = seal.RelinKeys(), seal.GaloisKeys()
        keys.create_public_key(self.public)
        keys.create_relin_keys(self.relin)
        keys.create_galois_keys([self._element(r) for r in (*range(-7, 0), 1)], self.galois)
        self.encoder, self.evaluator = seal.CKKSEncoder(self.context), seal.Evaluator(self.context)
        self.encryptor = seal.Encryptor(self.context, self.public)
        self.decryptor = seal.Decryptor(self.context, keys.secret_key())
        self.x, self.y = uniform(s.slots, 1), uniform(s.slots, 2)
        self.x_list = self.x.tolist()
        self.px = self.encode(self.x_list)
        self.cx, self.cy = self.encrypt(self.px), self.encrypt(self.encode(self.y.tolist()))

    def _element(self, step: int) -> int:
        # These bindings take Galois elements, generator 3, positive steps to the left.
        return pow(3, step % (self.n // 2), 2 * self.n)

    def encode(self, values: Any, like: Any = None) -> Any:
        p = seal.Plaintext()
        if like is None:
            self.encoder.encode(values, self.scale, p)
        else:
            self.encoder.encode(values, like.parms_id(), like.scale, p)
        return p

    def encrypt(self, p: Any) -> Any:
        c = seal.Ciphertext()
        self.encryptor.encrypt(p, c)
        return c

    def decrypt(self, c: Any) -> Vector:
        p = seal.Plaintext()
        self.decryptor.decrypt(c, p)
        return np.asarray(self.encoder.decode_double(p))

    def _new(self, f: Callable[..., Any], *args: Any) -> Any:
        c = seal.Ciphertext()
        f(*args, c)
        return c

    def multiply(self, a: Any, b: Any) -> Any:
        c = self._new(self.evaluator.multiply, a, b)
        self.evaluator.relinearize_inplace(c, self.relin)
        return c

    def rescale(self, a: Any) -> Any:
        return self._new(self.evaluator.rescale_to_next, a)

    def rotate(self, a: Any, step: int) -> Any:
        return self._new(self.evaluator.rotate_vector, a, step, self.galois)

    def rows(self) -> dict[str, Row]:
        if self.set.name == "J":
            return self.chebyshev()
        ev, keys = self.evaluator, self.keys
        product = self.multiply(self.cx, self.cy)
        calls = {
            "encode": lambda: self.encode(self.x_list),
            "encrypt (public key)": lambda: self.encrypt(self.px),
            "decrypt + decode": lambda: self.decrypt(self.cx),
            "ct + ct": lambda: self._new(ev.add, self.cx, self.cy),
            "ct * pt": lambda: self._new(ev.multiply_plain, self.cx, self.px),
            "ct * pt + rescale": lambda: self.rescale(self._new(ev.multiply_plain, self.cx, self.px)),
            "ct * ct + relinearize": lambda: self.multiply(self.cx, self.cy),
            "ct * ct + relinearize + rescale": lambda: self.rescale(self.multiply(self.cx, self.cy)),
            "rescale": lambda: self.rescale(product),
            "rotate by 1": lambda: self.rotate(self.cx, -1),
            "7 rotations": lambda: [self.rotate(self.cx, -r) for r in range(1, 8)],
            "relinearization key": lambda: keys.create_relin_keys(seal.RelinKeys()),
            "one rotation key": lambda: keys.create_galois_keys([self._element(1)], seal.GaloisKeys()),
        }
        decode = lambda p: np.asarray(self.encoder.decode_double(p))  # noqa: E731
        rows = basic_rows(calls, self.decrypt, decode, self.x, self.y)
        rows["rescale"] = Row(calls["rescale"], self.decrypt, self.x * self.y)
        if self.set.name == "A":
            rows |= self.matvec()
        return rows

    def key_bytes(self) -> dict[str, int]:
        words = (self.set.depth + 1) * 2 * (self.set.depth + 2) * self.n
        return {"memory": 8 * words, "stored": 8 * words}

    def chebyshev(self) -> dict[str, Row]:
        def run() -> Any:
            z = self.cx
            for _ in range(10):
                z = self.rescale(self.multiply(self._new(self.evaluator.add, z, z), z))
                self.evaluator.sub_plain_inplace(z, self.encode(1.0, z))
            return z

        row = Row(run, self.decrypt, chebyshev_ten(self.x))
        return {CIRCUIT_1: row, CIRCUIT_1_EAGER: row}

    def matvec(self) -> dict[str, Row]:
        mv, ev = MatVec(self.set.slots), self.evaluator
        ct = self.encrypt(self.encode(mv.x.tolist()))
        diagonals = [self.encode(d.tolist()) for d in mv.diagonals]
        bias = mv.bias.tolist()

        def constant(value: float, like: Any, scale: float | None = None) -> Any:
            p = seal.Plaintext()
            self.encoder.encode(value, like.parms_id(), scale or like.scale, p)
            return p

        def run() -> Any:
            acc = self._new(ev.multiply_plain, ct, diagonals[0])
            for r in range(1, 8):
                ev.add_inplace(acc, self._new(ev.multiply_plain, self.rotate(ct, -r), diagonals[r]))
            acc = self.rescale(acc)
            ev.add_plain_inplace(acc, self.encode(bias, acc))
            left = self._new(ev.add_plain, acc, constant(0.25, acc))
            right = self._new(ev.sub_plain, acc, constant(0.5, acc))
            q = self.rescale(self.multiply(left, right))
            return self.rescale(self._new(ev.multiply_plain, q, constant(mv.gain, q, self.scale)))

        row = Row(run, self.decrypt, mv.expected)
        return {CIRCUIT_2: row, CIRCUIT_2_COMPILED: row}
