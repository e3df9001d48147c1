"""CKKS, replay, programs and threads on the CUDA backend without a GPU: the same bits as the CPU backend."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ren
from emulated import emulated
from emulator import MISSING, EmulatedDevice
from ren.schemes import ckks
from ren.testing import fixed_randomness

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatedDevice]:
    with emulated() as made:
        yield made


def toy(device: str, scale_bits: int = 40) -> ckks.Engine:
    params = ckks.CKKSParams.build(n=128, levels=4, scale_bits=scale_bits, toy=True)
    return ckks.keygen(params, device, seed=b"devices")


def words(x: Any) -> bytes:
    return b"".join(np.asarray(part.residues()).tobytes() for part in (x.a, x.b))


def circuit(engine: ckks.Engine) -> dict[str, Any]:
    """Every kind of ciphertext operation; all randomness is fixed."""
    rng = np.random.default_rng(3)
    v, w = rng.uniform(-1, 1, (2, engine.num_slots))
    with engine, fixed_randomness(11):
        x, y = ckks.encrypt(ckks.encode(v)), ckks.encrypt(ckks.encode(w + 1j * v, msg_bound=2.0), engine.public_key)
        values = {
            "sum": x + y,
            "product": x * y,
            "square and integer": y.square() * -1 + (-3),
            "mixed levels": x * y * x + y,
            "array": x * w - v,
            "rotation": y.rotate(-3),
            "conjugate": y.conjugate(),
            "sum of slots": x.sum_slots(),
            "polynomial": ckks.polyval(x, [0.5, -1.0, 0.25, 0.125, 1.0]),
        }
        found = {name: words(c) for name, c in values.items()}
        decoded = np.asarray(ckks.decode(ckks.decrypt(values["product"])))
        return {**found, "decoded": decoded.tobytes(), "error": float(np.abs(decoded - v * (w + 1j * v)).max())}


@pytest.mark.parametrize("scale_bits", [30, 50])
def test_ckks_has_the_bits_of_the_cpu(device, scale_bits):
    expected, found = (circuit(toy(name, scale_bits)) for name in ("cpu", "cuda"))
    assert [name for name in expected if expected[name] != found[name]] == []
    assert found["error"] < 2.0 ** (12 - scale_bits)
    assert device.launched


def chebyshev(x: Any) -> Any:
    for _ in range(3):
        x = 2 * x * x - 1
    return x


def ciphertexts(engine: ckks.Engine, count: int) -> tuple[list[np.ndarray], list[Any]]:
    values = list(np.random.default_rng(5).uniform(-1, 1, (count, engine.num_slots)))
    with fixed_randomness(7):
        return values, [ckks.encrypt(ckks.encode(v)) for v in values]


def test_replay_gives_fresh_results_with_the_bits_of_eager_code(device):
    engine = toy("cuda")
    with engine:
        values, xs = ciphertexts(engine, 3)
        step = ren.jit(chebyshev)
        found = [step(x) for x in xs]  # all held: each has memory of its own
        assert [words(y) for y in found] == [words(chebyshev(x)) for x in xs]
        for v, y in zip(values, found, strict=True):
            assert np.abs(np.asarray(ckks.decode(ckks.decrypt(y))) - chebyshev(v)).max() < 1e-5


def test_threads_replay_one_plan(device):
    engine = toy("cuda")
    with engine:
        _, xs = ciphertexts(engine, 4)
        step = ren.jit(chebyshev)
        expected = [words(step(x)) for x in xs]
    found: list[list[bytes]] = [[] for _ in xs]

    def work(number: int) -> None:
        with engine:
            found[number] = [words(step(xs[number])) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [[e] * 3 for e in expected]


def test_nothing_waits_for_the_device_before_somebody_asks():
    """A device that does nothing before it must: what is freed, refreshed or overwritten too early would change the result."""
    with emulated(deferred=True):
        engine = toy("cuda")
        with engine:
            _, xs = ciphertexts(engine, 3)
            expected = [words(chebyshev(x)) for x in xs]
            step = ren.jit(chebyshev)
            step(xs[0])
            in_flight = [step(x) for x in xs for _ in range(2)]
            for x in xs:
                step(x)  # nobody holds the result: its memory comes back while the run that writes it is still to come
            in_flight += [step(x) for x in xs]
            assert [words(y) for y in in_flight] == [e for e in expected for _ in range(2)] + expected


@pytest.mark.torch
def test_a_traced_program(device):
    torch = pytest.importorskip("torch")
    from ren import jit
    from ren.testing.program_kit import workspace_for

    def function(x, w):
        return (x * w + torch.roll(x, 1, dims=0) ** 2).sum()

    x, w = torch.linspace(-1, 1, 8), torch.linspace(0, 1, 8)
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8), "w": jit.message(shape=(8,))})
    program = jit.default_pipeline().run(captured.program, captured.workspace).program
    engine = ckks.Engine("python-test", device="cuda")
    result = program.run(x, w, workspace=workspace_for(program, engine))
    found = torch.as_tensor(engine.decode(engine.decrypt(result)))
    torch.testing.assert_close(found.to(torch.float64).reshape(()), function(x, w).to(torch.float64), rtol=0, atol=1e-6)
