"""Ren on the CPU backend: eager rows, and the circuits both eager and replayed by ren.jit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import ren
from ren.errors import PossibleOverflowWarning
from ren.schemes import ckks
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

NAME = "Ren"

# The worst-case bound of circuit (i) outgrows the modulus after eight steps; its values stay in [-1, 1].
warnings.simplefilter("ignore", PossibleOverflowWarning)


def version() -> str:
    return str(ren.__version__)


class Contestant:
    security = "128"

    def __init__(self, s: ParameterSet) -> None:
        self.set = s
        self.params = ckks.CKKSParams.preset(f"slots{s.slots}-scale{s.scale_bits}-levels{s.depth}")
        self.engine = ckks.keygen(self.params)
        self.x, self.y = uniform(s.slots, 1), uniform(s.slots, 2)
        with self.engine:
            self.px = ckks.encode(self.x, msg_bound=1.0)
            self.cx, self.cy = ckks.encrypt(self.px), ckks.encrypt(ckks.encode(self.y, msg_bound=1.0))

    def _active(self, call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with self.engine:
                return call()

        return run

    def decrypt(self, c: Any) -> Vector:
        with self.engine:
            return np.asarray(ckks.decode(ckks.decrypt(c))).real

    def decode(self, p: Any) -> Vector:
        with self.engine:
            return np.asarray(ckks.decode(p)).real

    def _seven(self) -> list[Any]:
        rotated = ckks.rotate_many(self.cx, range(1, 8))
        ckks.realize(*rotated)
        return list(rotated)

    def rows(self) -> dict[str, Row]:
        if self.set.name == "J":
            return self.chebyshev()
        x, y, p = self.cx, self.cy, self.px
        with self.engine:
            product = ckks.multiply(x, y, relinearize=True, rescale=False).realize()
            ckks.rotate_many(x, range(1, 8))
        calls = {
            "encode": lambda: ckks.encode(self.x, msg_bound=1.0),
            "encrypt (public key)": lambda: ckks.encrypt(p, self.engine.public_key),
            "decrypt + decode": lambda: ckks.decode(ckks.decrypt(x)),
            "ct + ct": lambda: (x + y).realize(),
            "ct * pt": lambda: ckks.multiply(x, p, rescale=False).realize(),
            "ct * pt + rescale": lambda: (x * p).realize(),
            "ct * ct + relinearize": lambda: ckks.multiply(x, y, relinearize=True, rescale=False).realize(),
            "ct * ct + relinearize + rescale": lambda: (x * y).realize(),
            "rescale": lambda: ckks.rescale(product).realize(),
            "rotate by 1": lambda: x.rotate(1).realize(),
            "7 rotations": self._seven,
            "relinearization key": lambda: self.engine.generate_relinearization_key(),
            "one rotation key": lambda: self.engine.generate_rotation_key(1),
        }
        active = {name: self._active(call) for name, call in calls.items()}
        rows = basic_rows(active, self.decrypt, self.decode, self.x, self.y)
        rows["rescale"] = Row(active["rescale"], self.decrypt, self.x * self.y)
        if self.set.name == "A":
            rows |= self.matvec()
        return rows

    def key_bytes(self) -> dict[str, int]:
        key = self.engine.rotation_key(1)
        return {"memory": int(key.nbytes), "stored": int(key.stored_nbytes)}

    @staticmethod
    def _ten(x: Any) -> Any:
        for _ in range(10):
            x = 2 * x * x - 1
        return x

    def chebyshev(self) -> dict[str, Row]:
        jitted, expected = ren.jit(self._ten), chebyshev_ten(self.x)
        replayed = self._active(lambda: jitted(self.cx).realize())
        eager = self._active(lambda: self._ten(self.cx).realize())

        def decrypt(result: Any) -> Any:
            # 2 x^2 - 1 maps [-1, 1] to itself, which worst-case bounds do not see. Only the last level asks for this promise.
            return self.decrypt(result.assume_bound(1.0))

        return {
            CIRCUIT_1: Row(replayed, decrypt, expected),
            CIRCUIT_1_EAGER: Row(eager, decrypt, expected),
        }

    def matvec(self) -> dict[str, Row]:
        mv = MatVec(self.set.slots)
        with self.engine:
            ct = ckks.encrypt(ckks.encode(mv.x, msg_bound=1.0))
            diagonals = [ckks.encode(d, msg_bound=1.0) for d in mv.diagonals]
            bias = ckks.encode(mv.bias, msg_bound=1.0, level=1)

        def circuit(x: Any, diagonals: list[Any], bias: Any) -> Any:
            rotated = [x, *ckks.rotate_many(x, range(1, 8))]
            acc = ckks.multiply(rotated[0], diagonals[0], rescale=False)
            for r, d in zip(rotated[1:], diagonals[1:], strict=True):
                acc = acc + ckks.multiply(r, d, rescale=False)
            acc = ckks.rescale(acc) + bias
            return (acc + 0.25) * (acc - 0.5) * mv.gain

        jitted = ren.jit(circuit)
        run = self._active(lambda: jitted(ct, diagonals, bias).realize())
        return {
            CIRCUIT_2: Row(run, self.decrypt, mv.expected),
            CIRCUIT_2_COMPILED: Row(self.compiled(mv, ct), self.decrypt, mv.expected),
        }

    def compiled(self, mv: MatVec, ct: Any) -> Callable[[], Any]:
        """The same circuit as a traced program: default pipeline, compiled with its data as materials, replayed."""
        import torch
        from ren import jit

        diagonals, bias = [torch.tensor(d) for d in mv.diagonals], torch.tensor(mv.bias)

        def circuit(x: Any) -> Any:
            acc = x * diagonals[0]
            for r in range(1, 8):
                acc = acc + torch.roll(x, r, -1) * diagonals[r]
            acc = acc + bias
            return (acc + 0.25) * (acc - 0.5) * mv.gain

        captured = jit.trace(circuit, inputs={"x": jit.encrypted(bound=1.0)})
        program = jit.default_pipeline().run(captured.program, captured.workspace).program
        needed = jit.analyze_evaluation_key_requirements(program, engine=self.engine)
        captured.workspace.update(engine=self.engine, evaluation_keys=self.engine.evaluation_keys_for(needed))
        replay = program.compile(captured.workspace)
        return self._active(lambda: replay(ct))
