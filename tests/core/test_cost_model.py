"""The cost model of the engine: rows of work against what the reference backend really does, prices, reuse distances, the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import ren
from ren.backend import reference
from ren.backend.capability import calibration_of
from ren.backend.reference import ReferenceBackend
from ren.engine.calibrate import Scope, _far_curve, _Sample, _stream, calibrate
from ren.engine.calibration import Calibration
from ren.engine.cost import WORK, transforms_of, unit_cost, work_of
from ren.engine.exec_unit import ExecUnit, Operand
from ren.engine.forecast import forecast
from ren.engine.least_squares import non_negative
from ren.engine.reuse import reuse_of
from ren.engine.stopwatch import Reference
from ren.errors import CalibrationError
from ren.ops import KERNELS, Domain
from ren.poly import Poly
from ren.ring import RingSpec

N = 16
PRIMES = (97, 193, 257, 353, 449, 577, 641, 673, 769)
NTT, COEFF = Domain.NTT, Domain.COEFF


def unit(kernel: str, limbs: int, params: tuple[Any, ...] = (), ins: int = 1, outs: int = 1) -> ExecUnit:
    size = limbs * N
    places = [Operand(i, 0, size) for i in range(ins + outs)]
    return ExecUnit(kernel, RingSpec(N, PRIMES[:limbs]), params, tuple(places[:ins]), (), tuple(places[ins:]))


@pytest.mark.parametrize(
    ("made", "transforms"),
    [
        (unit("ntt", 3), 3),
        (unit("intt", 2), 2),
        (unit("mod_down", 5, (2, 0, NTT)), 5),  # two inverted, three transformed
        (unit("mod_down", 5, (2, 3, COEFF), ins=2), 0),
        (unit("decompose", 4, (2, PRIMES[4:6], NTT)), 4 + 2 * (6 - 2)),
        (unit("decompose", 4, (2, PRIMES[4:6], COEFF)), 2 * 6),
        (unit("key_switch", 5, (2, PRIMES[5:7], NTT, 7, tuple(range(7)))), 5 + 5 + 5 + 6),  # digits of 2, 2 and 1 limbs
        (unit("gadget_product", 4, (2, 4, (0, 1, 2, 3))), 0),
        (unit("automorphism", 3, (5, NTT)), 0),
    ],
)
def test_transforms_of_a_unit_follow_from_its_definition(made: ExecUnit, transforms: int) -> None:
    assert transforms_of(work_of(made)) == unit_cost(made).transforms == transforms


def test_work_names_only_kinds_of_the_table() -> None:
    program = (2, 0, (("mul", 0, 1), ("add", 0, 2)), (3,), NTT)
    for made in (unit("elementwise", 2, program, ins=2), unit("sample", 2, ("gaussian", "3.19", 0)), unit("lift", 2)):
        assert {kind for kind, _ in work_of(made)} <= WORK.keys()


def test_both_forms_of_a_two_stage_division_count_conversions() -> None:
    """One conversion of all dropped limbs, or one of the special ones into the chain limb first."""
    plain, staged = (work_of(unit("mod_down", 6, (3, z, NTT), ins=2)) for z in (3, 4))
    pairs = [sum(c for (kind, _), c in w.items() if kind == "convert") for w in (plain, staged)]
    assert pairs == [3 * 3, 3 * 3 + 2]


# -- prices ------------------------------------------------------------------------------------------------------------


def prices(**more: Any) -> Calibration:
    fields = {
        "backend": "x",
        "machine": "m",
        "note": "made up",
        "widths": (200, 1 << 61),
        "kernels": {"ntt": {4: {"unit": 1e-6, "forward.0": 1e-5, "forward.1": 3e-5, "stream": 0.5}}},
        "far": ((1024, 0.0), (4096, 2e-9)),
    }
    return Calibration(**{**fields, **more})


def test_time_is_linear_in_rows_by_width_and_grows_with_distance() -> None:
    c = prices()
    assert c.unit_time(unit("ntt", 2)) == pytest.approx(1e-6 + 2e-5)  # 97 and 193 are in the first class
    assert c.unit_time(unit("ntt", 3)) == pytest.approx(1e-6 + 2e-5 + 3e-5)
    assert c.far_price(512) == 0.0 and c.far_price(1 << 30) == 2e-9
    assert c.far_price(2048) == pytest.approx(1e-9)  # half-way on a logarithmic scale
    assert c.unit_time(unit("ntt", 2), [(100, 4096)]) == pytest.approx(1e-6 + 2e-5 + 0.5 * 100 * 2e-9)


def test_prices_between_dimensions_are_interpolated_per_coefficient() -> None:
    c = prices(kernels={"ntt": {4: {"forward.0": 16e-9}, 6: {"forward.0": 128e-9}}})
    assert c.price("ntt", "forward.0", 32) == pytest.approx(32 * 1.5e-9)
    assert c.price("ntt", "forward.0", 8) == pytest.approx(8 * 1e-9)
    assert c.price("ntt", "forward.0", 128) == pytest.approx(128 * 2e-9)


def test_a_calibration_survives_its_file_and_a_damaged_one_is_refused() -> None:
    c = prices(replay=1e-6, reference=2e-6)
    assert Calibration.from_json(c.to_json()) == c
    for text in ("", "[]", "{}", c.to_json()[:-9], c.to_json().replace("1e-06", "-1"), c.to_json().replace('"format": 2', '"format": 9')):  # fmt: skip
        with pytest.raises(CalibrationError):
            Calibration.from_json(text)
    with pytest.raises(CalibrationError, match=r"kernel 'copy' was not measured on 'x'.*ren warmup"):
        c.unit_time(unit("copy", 1))


# -- reuse -------------------------------------------------------------------------------------------------------------


def test_reuse_distances_are_those_of_a_replay_after_a_replay() -> None:
    row = 8 * N
    a, b, c = (Operand(slot, 0, N) for slot in range(3))
    ring = RingSpec(N, PRIMES[:1])
    first = ExecUnit("ntt", ring, (), (a,), outputs=(b,))
    second = ExecUnit("ntt", ring, (), (b,), outputs=(c,))
    # In the second replay: since a was last touched, b and c were; b was touched just before its second use.
    assert reuse_of([first, second]) == [[(row, 3 * row), (row, 3 * row)], [(row, row), (row, 3 * row)]]
    assert reuse_of([first]) == [[(row, 2 * row), (row, 2 * row)]]


def test_reuse_distances_equal_a_naive_stack() -> None:
    random = np.random.default_rng(3)
    ring = RingSpec(N, PRIMES[:1])
    units = [
        ExecUnit("ntt", ring, (), (Operand(int(i), 0, N),), outputs=(Operand(int(o), 0, N),))
        for i, o in random.integers(0, 9, (60, 2))
    ]
    stack: list[int] = []
    found: list[list[tuple[int, int]]] = []
    for _ in range(2):
        found = []
        for u in units:
            seen = []
            for slot in dict.fromkeys(o.slot for o in u.operands):
                distance = stack.index(slot) + 1 if slot in stack else len(stack)
                if slot in stack:
                    stack.remove(slot)
                stack.insert(0, slot)
                seen.append((8 * N, 8 * N * max(distance, 1)))
            found.append(seen)
    assert reuse_of(units) == found


def test_constants_of_kernels_are_followed_like_data() -> None:
    """Tables of one modulus are shared by units; they take room in caches, and their distance counts what came in between."""
    row = 8 * N
    first, second = (ExecUnit("ntt", RingSpec(N, PRIMES[i : i + 1]), (), (Operand(i, 0, N),)) for i in (0, 1))
    again = ExecUnit("intt", RingSpec(N, PRIMES[:1]), (), (Operand(0, 0, N),))
    rows = {"forward": 2.0}
    assert reuse_of([first, second, again], rows) == [
        [(row, row), (2 * row, 6 * row)],  # the row was just inverted; its twiddles, two rows and the other twiddles ago
        [(row, 6 * row), (2 * row, 6 * row)],
        [(row, 6 * row)],  # nothing is said about constants of inverse transforms
    ]
    turned = unit("automorphism", 2, (5, NTT))
    assert sum(size for size, _ in reuse_of([turned], {"gather": 1.0})[0]) == (2 + 2 + 1) * row
    dear = prices(constants={"forward": 64.0})
    assert dear.plan_times([first])[0] > prices().plan_times([first])[0], "more than fits into the nearest cache"


# -- the fit -----------------------------------------------------------------------------------------------------------


def test_least_squares_without_negative_prices() -> None:
    random = np.random.default_rng(5)
    a = random.uniform(0, 1, (30, 5))
    truth = np.array([1.0, 0.0, 2.0, 0.5, 0.0])
    assert non_negative(a, a @ truth) == pytest.approx(truth, abs=1e-9)
    noisy = non_negative(a, a @ (truth - [0, 0.3, 0, 0, 0.1]))
    assert (noisy >= 0).all()
    # Optimal: no coordinate can be moved to gain (the conditions of Kuhn and Tucker).
    gradient = a.T @ (a @ (truth - [0, 0.3, 0, 0, 0.1]) - a @ noisy)
    assert (gradient[noisy == 0] <= 1e-9).all() and np.abs(gradient[noisy > 0]).max() < 1e-9


def test_no_distance_is_cheaper_than_a_smaller_one() -> None:
    """What seems so is a disturbance of the smaller one: a far price is never raised by it."""
    assert _far_curve((1, 2, 4, 8), (9.0, 2.0, 3.0, 2.5)) == ((1, 0.0), (2, 0.0), (4, 0.5), (8, 0.5))


def test_what_far_data_costs_a_kernel_is_a_difference_of_the_same_units() -> None:
    made, c = unit("ntt", 2), prices()
    near, away = [(1000, 1024)], [(1000, 4096)]
    samples = [_Sample(made, 1e-5, near, (1e-5 + 0.7 * 1000 * 2e-9, away)), _Sample(made, 1.0, near)]
    assert _stream(c, samples) == pytest.approx(0.7)
    assert _stream(c, [_Sample(made, 1e-5, near, (0.9e-5, away))]) == 0.0


def test_of_each_piece_the_shortest_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pieces that are never undisturbed in the same round, on a clock that only they move."""
    now = [0.0]
    monkeypatch.setattr("ren.engine.stopwatch.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("ren.engine.stopwatch.Runs.of", lambda self, units: lambda: None)
    reference = Reference(ReferenceBackend(), N)

    def piece(times: list[float]) -> Callable[[], None]:
        return lambda: now.__setitem__(0, now[0] + (times.pop(0) if times else 9.0))

    found = reference.shortest([piece([5.0, 1.0, 7.0]), piece([2.0, 6.0, 8.0])], rounds=3)
    assert found == [1.0, 2.0]


def test_every_kernel_of_a_backend_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ren.engine.calibrate._ROUNDS", 1)
    monkeypatch.setattr("ren.engine.calibrate._MOST_REPEATS", 1)
    monkeypatch.setattr("ren.engine.stopwatch._FEWEST", 1)
    monkeypatch.setattr("ren.engine.stopwatch._SECONDS", 0.0)
    scope = Scope((3,), (1 << 30, 1 << 61), (20, 40), 3, 1 << 10, (256, 512, 1024, 2048))
    lines: list[str] = []
    found = calibrate(ReferenceBackend(), scope, machine="m", note="n", progress=lines.append)
    assert found.kernels.keys() == KERNELS.keys() and lines
    assert found.replay > 0 and found.reference > 0
    assert all(found.unit_time(unit(k, 2, p, i)) > 0 for k, p, i in (("ntt", (), 1), ("copy", (), 1)))


# -- forecasts -----------------------------------------------------------------------------------------------------------


def test_a_forecast_is_the_plan_and_knows_which_node_each_unit_is_for() -> None:
    ring = RingSpec(N, PRIMES[:2])
    x, y = Poly(range(N), ring, "reference"), Poly([3] * N, ring, "reference")
    product = x * y
    turned = product.automorphism(5)
    plan = forecast([turned._node, (product + x)._node], ReferenceBackend())
    assert plan.seconds is None and plan.total_seconds is None and calibration_of(ReferenceBackend()) is None
    by_kernel = {u.kernel: made for u, made in zip(plan.units, plan.made, strict=True)}
    assert by_kernel["automorphism"] == (turned._node,)
    assert product._node in by_kernel["elementwise"]
    assert plan.output_bytes == 2 * 8 * 2 * N and set(plan.read) == {x._node, y._node}
    timed = forecast([turned._node], ReferenceBackend(), replace(_all_kernels(), replay=1e-3))
    assert timed.seconds is not None and timed.total_seconds == pytest.approx(sum(timed.seconds) + 1e-3)


def _all_kernels() -> Calibration:
    every = {kind if kind == "unit" or q == "" else f"{kind}.{q}": 1e-6 for kind in WORK for q in ("", "0", "1")}
    return prices(kernels={k: {4: every} for k in KERNELS})


def test_lower_prints_the_predicted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = RingSpec(N, PRIMES[:2])
    x = Poly(range(N), ring, "reference")
    f = ren.jit(lambda a: a * a)
    f(x)
    assert f.lower(x).cost.seconds is None and ", predicted " not in str(f.lower(x))
    monkeypatch.setattr(reference.ReferenceBackend, "calibration", lambda self: _all_kernels(), raising=False)
    monkeypatch.setattr(reference.ReferenceBackend, "calibrate", lambda self, progress: _all_kernels(), raising=False)
    lowered = f.lower(x)
    assert lowered.cost.seconds is not None and lowered.cost.seconds > 0
    assert ", predicted " in str(lowered)
