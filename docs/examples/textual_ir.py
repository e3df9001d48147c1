"""Import a program as text, keep an operation that only this application knows, bind its handler, and run.

The text mixes dialects: semantic operations of Ren, and `app.limit`, which nobody registered. Ren keeps it as it is, lowers what is
around it, and calls the handler in the workspace when the program runs.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import add_engine_args, make_engine, print_table
from ren import jit
from ren.schemes import ckks

TEXT = """builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff>, %gain: !ren.message) -> !ren.encrypted<shape=full> {
    %limited = "app.limit"(%gain) {app.low = -1.0 : f64, app.high = 1.0 : f64} : (!ren.message) -> !ren.message
    %scaled = "ren.semantic.multiply"(%x, %limited) : (!ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff>, !ren.message) -> !ren.encrypted<shape=full>
    %square = "ren.semantic.multiply"(%scaled, %scaled) : (!ren.encrypted<shape=full>, !ren.encrypted<shape=full>) -> !ren.encrypted<shape=full>
    %sum = "ren.semantic.add"(%square, %x) : (!ren.encrypted<shape=full>, !ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff>) -> !ren.encrypted<shape=full>
    func.return %sum : !ren.encrypted<shape=full>
  }
}
"""
TOLERANCE = 3e-5


def limit(operation, operands, workspace):
    """The handler of `app.limit`: called with the xDSL operation, the values of its operands and the workspace."""
    low, high = (operation.attributes[f"app.{name}"].value.data for name in ("low", "high"))
    return np.clip(operands[0], low, high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_engine_args(parser, default_preset="slots8192-scale40-levels7")
    engine = make_engine(parser.parse_args())

    # 1. Parsing checks structure and evaluates nothing. The text comes back byte for byte, unknown operations included.
    program = jit.parse(TEXT, source_name="application.mlir")
    assert jit.parse(program.to_text()).to_text() == program.to_text()

    # 2. Lower. The program says itself what it still needs.
    workspace = jit.Workspace()
    lowered = jit.default_pipeline().run(program, workspace).program
    print(lowered.to_text())
    before = lowered.readiness(workspace)

    # 3. Bind the handler, the engine and exactly the keys that are needed.
    needed = jit.analyze_evaluation_key_requirements(lowered)
    workspace["handlers"] = {"app.limit": limit}
    workspace["engine"] = engine
    workspace["public_key"] = engine.public_key
    workspace["evaluation_keys"] = ckks.EvaluationKeySet(
        relinearization=engine.relinearization_key if needed.requires_relinearization else None
    )
    after = lowered.readiness(workspace)
    print_table(
        ["workspace", "runnable", "missing operations", "codes"],
        [
            [name, report.runnable, ", ".join(report.missing_operations), ", ".join(sorted(report.codes))]
            for name, report in (("empty", before), ("bound", after))
        ],
    )

    # 4. Run: the array is encrypted with the public key, the gain is public.
    x = np.cos(np.arange(engine.num_slots)) / 2
    gain = np.linspace(-2, 2, engine.num_slots)
    result = lowered.run(x, gain, workspace=workspace)
    decoded = engine.decode(engine.decrypt(result))
    error = float(np.abs(decoded - ((x * np.clip(gain, -1, 1)) ** 2 + x)).max())
    print_table(["level", "max abs error"], [[result.level, f"{error:.2e}"]])
    if error > TOLERANCE:
        raise SystemExit(f"error {error:.2e} is above {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
