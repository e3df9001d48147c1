"""The opt-ins of ren.jit."""

import os
import signal
import threading
import warnings

import pytest
import ren
from ren.engine import capture
from ren.engine.deferred import Deferred, Recipes, deferred_call
from ren.engine.plan_cache import PLANS
from ren.engine.pool import pool_of
from ren.engine.run import backend_of
from ren.poly import Poly
from ren.ring import RingSpec

RING = RingSpec(n=8, moduli=(17, 97))


def P(*c):
    return Poly([*c, *[0] * (8 - len(c))], RING)


def first(p):
    return p.to_centered_list()[0]


# -- scalars


def test_recapture_keeps_one_plan_per_value():
    calls = []

    @ren.jit(scalars="recapture")
    def f(x, k):
        calls.append(k)
        return x * k

    assert [first(f(P(2), k)) for k in (1, 2, 1, 2, 3)] == [2, 4, 2, 4, 6]
    assert calls == [1, 2, 3]


def test_dynamic_scalars_share_one_plan():
    calls = []

    @ren.jit(scalars="dynamic")
    def f(x, k, m=2):
        calls.append(f"{k}")
        return (x * (k + 1) - k * m) * abs(-k) + round(k // 1), k * 2

    def eager(x, k, m):
        return first((P(x) * (k + 1) - k * m) * abs(k) + k)

    for k in range(200):
        out, doubled = f(P(3), k, m=k % 5)
        assert first(out) == eager(3, k, k % 5)
        assert doubled == 2 * k
    assert len(f._plans) == 1
    assert calls == ["0"]
    with pytest.raises(TypeError):
        f(P(3), 1.5)  # another type: captured anew, and a Poly takes ints
    assert first(f(P(3), 2**80)[0]) == eager(3, 2**80, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda k: 1 if k else 0,
        lambda k: k > 1,
        lambda k: k == 1,
        lambda k: k != 1,
        lambda k: int(k),
        lambda k: float(k),
        lambda k: [0, 1, 2, 3][k],
        lambda k: range(k),
        lambda k: {k: 1},
        lambda k: "ab" * k,
        lambda k: min(k, 2),
        lambda k: complex(k),
    ],
)
def test_a_dynamic_scalar_that_steers_python_raises(use):
    @ren.jit(scalars="dynamic")
    def f(x, gain):
        use(gain)
        return x * gain

    with pytest.raises(RuntimeError, match="gain.*recapture") as info:
        f(P(1), 2)
    assert any("test_options.py" in note for note in info.value.__notes__)
    assert capture.current() is None


def test_other_arguments_keep_the_documented_rule():
    @ren.jit(scalars="dynamic")
    def f(x, k, mode="a"):
        return x * k if mode == "a" else x + k

    assert first(f(P(3), 2)) == 6
    assert first(f(P(3), 5)) == 15
    with pytest.raises(RuntimeError, match="scalar arg changed"):
        f(P(3), 5, "b")


def test_errors_of_host_computations_surface_from_the_replay():
    def checked(k):
        if k > 10:
            raise OverflowError("too large")
        return k * 2

    @ren.jit(scalars="dynamic")
    def f(x, k):
        return x * deferred_call(checked, k)

    assert [first(f(P(1), k)) for k in (1, 9)] == [2, 18]
    with pytest.raises(OverflowError, match="too large"):
        f(P(1), 11)
    assert first(f(P(1), 10)) == 20
    assert deferred_call(checked, 3) == 6


def test_long_expressions_of_scalars_do_not_recurse():
    e = Deferred.leaf(0, 1, "k")
    for _ in range(5000):
        e = e + 1
    recipes = Recipes(1)
    place = recipes.add(e)
    assert recipes.add(e) == place
    assert recipes.run([7])[place] == 5007


# -- constants


def test_constants_are_keyed_by_value_or_dynamic():
    @ren.jit
    def keyed(x, c):
        return x * c + c

    @ren.jit(constants="dynamic")
    def dynamic(x, c):
        return x * c + (c - 1) * c.mod_drop(0) - c.automorphism(3), c, c * c, -c

    for k in range(1, 6):
        c = Poly.const(k, RING)
        assert first(keyed(P(2), c)) == 3 * k
        out, same, square, minus = dynamic(P(2), c)
        assert first(out) == 2 * k + (k - 1) * k - k
        assert same is c
        assert (first(square), first(minus)) == (k * k, -k)
    assert (len(keyed._plans), len(dynamic._plans)) == (5, 1)
    assert first(dynamic(P(2), P(5))[0]) == 25
    assert len(dynamic._plans) == 2


def test_a_result_that_is_a_constant():
    @ren.jit
    def f(x):
        return x + 1, Poly.const(4, RING) * 2

    for _ in range(2):
        assert first(f(P(1))[1]) == 8


# -- randomness


def test_fresh_randomness_differs_at_each_replay_and_is_one_draw_within_it():
    @ren.jit(random="fresh")
    def f(x):
        r, s = Poly.uniform(RING), Poly.uniform(RING)
        return x + r, r - r, r - s, r.ntt() - r

    seen = set()
    for _ in range(20):
        a, zero, difference, same = f(P(1))
        assert zero.tolist() == same.tolist() == [0] * 8
        assert difference.tolist() != [0] * 8
        seen.add(a.tobytes())
    assert len(seen) == 20
    assert len(f._plans) == 1


def test_no_seed_is_kept_in_a_plan(monkeypatch):
    drawn = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: drawn.append(real(n)) or drawn[-1])

    @ren.jit(random="fresh")
    def f(x):
        return x + Poly.ternary(RING)

    for _ in range(3):
        f(P(1))
    seeds = [d for d in drawn if len(d) == 32]
    assert len(set(seeds)) == 3
    for plan in f._plans.values():
        assert [segment.seeds for segment in plan.segments] == [[None]]


def test_fresh_randomness_differs_in_forked_children():
    @ren.jit(random="fresh")
    def f(x):
        return x + Poly.uniform(RING)

    f(P(1))
    draws = []
    for _ in range(3):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, f(P(1)).tobytes())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        draws.append(os.read(read, 4096))
        os.close(read)
    draws.append(f(P(1)).tobytes())
    assert len(set(draws)) == 4
    assert all(len(d) == 2 * 8 * 8 for d in draws)


# -- nesting


def test_inline_from_either_side():
    bias = P(10)

    @ren.jit
    def inner(x):
        return x + bias

    @ren.jit(nested="inline")
    def outer(x):
        return inner(x) * 2

    @ren.jit(nested="inline")
    def willing(x):
        return x + 1

    @ren.jit
    def plain(x):
        return willing(x) * 2

    for k in (1, 2):
        bias = P(10 * k)
        assert first(outer(P(k))) == 22 * k
        assert first(plain(P(k))) == 2 * (k + 1)
    assert not inner._plans
    assert len(outer._plans) == 1


# -- pruning


def test_pruned_work_runs_once_and_its_inputs_may_still_change():
    weight = P(3, 1)

    @ren.jit(prune=True)
    def f(x):
        table = (P(2, 5) * P(3)).automorphism(3).rescale()
        return x * (weight * P(2)) + P(4) * P(5), x.rescale() * table, table

    @ren.jit
    def plain(x):
        return f.fn(x)

    for k in range(3):
        x = P(k, 1)
        got, expected = f(x), f.fn(x)
        assert all(a == b for a, b in zip(got, expected, strict=True))
    weight = P(7)
    assert f(P(1))[0] == f.fn(P(1))[0]
    pruned = {u.kernel for units in f.lower(P(1)).units for u in units}
    assert "automorphism" not in pruned
    assert len(f._plans) == 1


def test_pruning_keeps_fresh_randomness_and_dynamic_scalars():
    @ren.jit(prune=True, random="fresh", scalars="dynamic")
    def f(x, k):
        r = Poly.uniform(RING) * P(2)
        return x + r, P(3) * P(4) * k

    a, b = f(P(1), 1), f(P(1), 2)
    assert a[0] != b[0]
    assert (first(a[1]), first(b[1])) == (12, 24)


# -- donation


def test_donated_memory_is_reused_in_place():
    @ren.jit(donate="x")
    def f(x, y):
        return x + y * y

    y = P(2).ntt().realize()
    x = P(1).ntt().realize()
    memory = x._node.realized.memory
    for i in range(5):
        x = f(x, y)
        assert x._node.realized.memory is memory
        assert first(x) == 1 + 4 * (i + 1)


def test_a_shared_donation_is_copied_first():
    @ren.jit(donate=("x",))
    def f(x, y):
        return x + y

    x, y = P(1), P(2)
    lazy = x * y
    view = x.mod_drop(1).realize()
    out = f(x, y)
    assert (first(out), first(lazy), first(view)) == (3, 2, 1)


def test_a_donated_input_that_is_returned_stays_usable():
    @ren.jit(donate=("x",))
    def f(x, y):
        return x, x.limbs(1, 2), x + y

    x = P(5)
    same, view, total = f(x, P(2))
    assert same is x
    assert (first(x), view.tolist()[0], first(total)) == (5, 5, 7)


def test_donated_containers():
    @ren.jit(donate=("pair",))
    def f(pair, y):
        return [p * 2 + y for p in pair]

    pair = [P(1), P(2)]
    for _ in range(3):
        pair = f(pair, P(1))
    assert [first(p) for p in pair] == [15, 23]


# -- bounds


def test_least_recently_used_plans_are_dropped_with_one_warning():
    @ren.jit(maxsize=2, scalars="recapture")
    def f(x, k):
        return x * k

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            for k in range(3):
                assert first(f(P(1), k)) == k
    (warning,) = [w for w in seen if "ren.jit" in str(w.message)]
    assert "maxsize=2" in str(warning.message)
    assert warning.filename == __file__
    assert f.cache_info() == (0, 9, 2, 2)
    f(P(1), 2)
    f(P(1), 1)
    assert f.cache_info().hits == 2
    f.clear_jit()
    assert f.cache_info().currsize == 0


def test_at_most_sixteen_plans_by_default():
    @ren.jit(scalars="recapture")
    def f(x, k):
        return x * k

    for k in range(20):
        f(P(1), k)
    assert len(f._plans) == 16
    assert ren.jit(f.fn, maxsize=None).cache_info().maxsize is None


# -- looking inside


def test_explain_names_the_field_that_differs():
    @ren.jit
    def f(x, y=None, k=1):
        return x * 2

    other = RingSpec(n=4, moduli=(17, 97))
    assert f.explain(P(1)) == "miss: no plan captured yet"
    f(P(1))
    assert f.explain(P(1)) == "hit"
    assert "domain" in f.explain(P(1).ntt())
    assert "argument x: ring" in f.explain(Poly([1, 2, 3, 4], other))
    assert "constant" in f.explain(Poly.const(1, RING))
    assert f.explain(P(1), k=2).startswith("error: scalar argument changed (captured (None, 1), got (None, 2))")
    assert "structure" in f.explain(P(1), P(2))
    assert f.cache_info().misses == 1


def test_lower_shows_units_slots_bytes_and_cost():
    @ren.jit
    def f(x, y):
        return (x * y + 3).automorphism(3)

    lowered = f.lower(P(1), P(2))
    text = str(lowered)
    for word in ("plan of", "slot 0", "elementwise", "automorphism", "bytes", "cost: ", "row transforms"):
        assert word in text
    assert lowered.cost.transforms == 4
    assert f.explain(P(1), P(2)) == "hit"
    assert str(f.lower(P(5), P(6))) == text


def test_validate_passes_on_a_right_backend():
    @ren.jit(validate=True)
    def f(x, y):
        return (x * y + 3).automorphism(3).rescale()

    for k in range(2):
        assert f(P(k, 1), P(2)) == f.fn(P(k, 1), P(2))


def test_replaying_checks_nothing_out_twice():
    @ren.jit
    def f(x):
        return (x * x).automorphism(3)

    x = P(1, 2)
    f(x)
    pool = pool_of(backend_of(x.device))
    before = pool.misses
    for _ in range(10):
        f(x)
    assert pool.misses == before


def test_a_child_forked_while_another_thread_holds_a_lock_can_replay():
    @ren.jit
    def f(x):
        return x * x + 1

    x = P(3)
    f(x)
    held, release = threading.Event(), threading.Event()

    def hold():
        with PLANS._lock, f._store._lock, pool_of(backend_of(x.device))._lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        good = first(f(x)) == 10 and first((x + 1) * x) == 12
        os._exit(0 if good else 1)
    release.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_these_tests_run_on_the_backend_they_name(request):
    assert P(1).device == request.node.callspec.params["replay_device"]


@pytest.mark.parametrize("use", [lambda x, k: x.automorphism(k), lambda x, k: x + Poly([k] * 8, RING)])
def test_a_dynamic_scalar_where_the_plan_needs_a_fixed_integer(use):
    with pytest.raises(RuntimeError, match="dynamic scalar steers .*recapture"):
        ren.jit(use, scalars="dynamic")(P(1), 3)
