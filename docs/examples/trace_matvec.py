"""A PyTorch function under encryption: traced, lowered, checked and run.

An 8 x 8 matrix, stored as a tensor, is applied to an encrypted vector with the diagonal method, and a quadratic to the result. The vector is repeated over all
slots in blocks of eight, so that rotating the slots rotates every block. What happens to public data stays ordinary PyTorch inside the program; what touches
the encrypted vector becomes CKKS operations, which this script prints together with what each pass did, and whose decrypted result it compares with PyTorch's own.

    python docs/examples/trace_matvec.py --preset slots8192-scale40-levels7-int64
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from common import add_engine_args, make_engine, print_table
from ren import jit
from ren.schemes import ckks

SIZE = 8
#: Largest error that is accepted; what is measured is a thousand times smaller.
TOLERANCE = 3e-5


def affine_then_quadratic(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    gain: torch.Tensor,
    size: int,
    repeats: int,
) -> torch.Tensor:
    """gain * (a + 0.25) * (a - 0.5) with a = weight @ x + bias, for x, and the result, repeated `repeats` times.

    Row j of the matrix meets x rotated by r in weight[j, (j - r) mod size]: one generalised diagonal per rotation.
    """
    a = x * torch.diagonal(weight).repeat(repeats)
    for r in range(1, size):
        head = torch.diagonal(weight, offset=size - r)
        tail = torch.diagonal(weight, offset=-r)
        diagonal = torch.cat((head, tail)).repeat(repeats)
        a = a + torch.roll(x, shifts=r, dims=-1) * diagonal
    a = a + bias.repeat(repeats)
    return (a + 0.25) * (a - 0.5) * gain


def example_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A vector, a matrix and a bias that are the same on every machine."""
    index = torch.arange(SIZE, dtype=torch.float64)
    x = 0.03 * torch.cos(0.9 * index) - 0.012 * torch.sin(1.7 * index)
    rows, columns = index[:, None], index[None, :]
    weight = 0.25 * torch.eye(SIZE, dtype=torch.float64) + 0.05 * torch.cos(0.8 * rows * columns + rows - columns)
    bias = 0.01 * torch.sin(index + 0.5)
    return x, weight, bias


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add_engine_args(parser, default_preset="slots8192-scale40-levels7-int64")
    args = parser.parse_args()
    engine = make_engine(args)
    repeats = engine.num_slots // SIZE

    # Trace: nothing is lowered or run yet, so the program is not ready.
    captured = jit.trace(
        affine_then_quadratic,
        inputs={
            "x": jit.encrypted(),
            "weight": jit.message(),
            "bias": jit.message(),
            "gain": jit.plaintext(),
            "size": jit.static(SIZE),
            "repeats": jit.static(repeats),
        },
    )
    traced = captured.program.readiness(captured.workspace)

    # Lower: the passes work on a clone; the workspace stays the same object.
    lowered = jit.default_pipeline().run(captured.program, captured.workspace)
    program, workspace = lowered.program, lowered.workspace
    unbound = program.readiness(workspace)

    # Provision: only the keys that the program asks for.
    needs = jit.analyze_evaluation_key_requirements(program)
    workspace["engine"] = engine
    workspace["evaluation_keys"] = ckks.EvaluationKeySet(
        rotations=ckks.RotationKeySet({step: engine.rotation_key(step) for step in needs.rotation_steps}),
        relinearization=engine.relinearization_key if needs.requires_relinearization else None,
    )
    ready = program.readiness(workspace)
    if not ready.runnable:
        raise SystemExit("not ready to run:\n" + "\n".join(str(d) for d in ready.diagnostics))

    x, weight, bias = example_data()
    packed_x = x.repeat(repeats)
    gain = 0.75
    gain_plaintext = engine.plaintext(gain, level=2, scale=engine.config.default_scale)

    # The traced function itself says what is right, and plain linear algebra says the same of it.
    reference = captured.reference(packed_x, weight, bias, gain)
    affine = weight @ x + bias
    torch.testing.assert_close(reference[:SIZE], (affine + 0.25) * (affine - 0.5) * gain, rtol=1e-12, atol=1e-15)

    encrypted_x = engine.encrypt_message(packed_x, engine.public_key)
    result = jit.run(program, encrypted_x, weight, bias, gain_plaintext, workspace=workspace)
    decoded = engine.decrypt_message(result, engine.secret_key, is_real=True)
    error = float(torch.abs(decoded - reference).max())
    if error > TOLERANCE:
        raise SystemExit(f"wrong result: the largest error is {error:.3e}, {TOLERANCE:.0e} is accepted")

    print(program.to_text())
    print_table(
        ["pass", "matched", "transformed", "inserted", "removed", "skipped"],
        [
            [r.name, r.stats.matched, r.stats.transformed, r.stats.inserted, r.stats.removed, r.stats.skipped]
            for r in lowered.reports
        ],
    )
    print()
    print_table(
        ["stage", "operations", "runnable", "what is missing"],
        [
            [stage, len(report.requirements.operations), report.runnable, ", ".join(_codes(report)) or "nothing"]
            for stage, report in (("traced", traced), ("lowered", unbound), ("with keys", ready))
        ],
    )
    print()
    print_table(
        ["keys", "needed"],
        [["rotations", sorted(needs.rotation_steps)], ["relinearization", needs.requires_relinearization]],
    )
    print()
    print_table(
        ["result", "level", "scale", "largest error"],
        [["encrypted against PyTorch", result.level, f"{float(result.scale):.6e}", f"{error:.2e}"]],
    )


def _codes(report: Any) -> list[str]:
    return list(dict.fromkeys(d.code for d in report.errors))


if __name__ == "__main__":
    main()
