"""Memory plan, pool and schedule cache."""

import gc
import random
import threading

import pytest
from ren.backend.select import get_backend
from ren.engine.exec_unit import SlotKind
from ren.engine.memory import Block, _place, plan_memory
from ren.engine.plan_cache import PLANS, PlanCache
from ren.engine.pool import Pool, pool_of, size_class
from ren.engine.run import backend_of
from ren.engine.schedule.normalise import normalise
from ren.engine.schedule.order import best_order, peak_words
from ren.engine.schedule.steps import Cell, RootSpan, Span, Step, Steps
from ren.ops import Domain
from ren.poly import Poly
from ren.ring import RingSpec

RING = RingSpec(n=8, moduli=(17, 97))


@pytest.fixture(autouse=True)
def _reference(monkeypatch):
    monkeypatch.setenv("REN_BACKEND", "reference")


def P(*c):
    return Poly([*c, *[0] * (8 - len(c))], RING)


@pytest.mark.parametrize("seed", range(40))
def test_blocks_alive_together_never_overlap(seed):
    rng = random.Random(seed)
    blocks = []
    for _ in range(rng.randint(1, 60)):
        start = rng.randrange(30)
        blocks.append(Block(rng.randint(1, 40), start, start + rng.randrange(12)))
    total = _place(blocks, 8)
    for i, a in enumerate(blocks):
        assert a.offset % 8 == 0
        assert a.offset + a.words <= total
        for b in blocks[:i]:
            if a.start <= b.end and b.start <= a.end:
                assert a.offset + a.words <= b.offset or b.offset + b.words <= a.offset
    alive = max(sum(-(-b.words // 8) * 8 for b in blocks if b.start <= t <= b.end) for t in range(45))
    assert total <= 1.5 * alive


def chain(kernels):
    cells = [Cell(16, SlotKind.INPUT, 0), *(Cell(16) for _ in kernels)]
    return cells, [Step(k, RING, (), [Span(cells[i], 0, 16)], [cells[i + 1]]) for i, k in enumerate(kernels)]


def test_in_place_only_where_the_kernel_contract_allows_it():
    cells, steps = chain(["sample", "ntt", "elementwise", "automorphism", "intt"])
    plan = plan_memory(steps, [0] * 5, 8)
    block = [plan.block_of.get(id(c)) for c in cells]
    assert block[1] is block[2] is block[3]
    assert block[4] is not block[3]
    assert block[4] is block[5]
    assert plan.arena_words == 32


def test_a_part_of_an_input_is_not_overwritten():
    x, y = Cell(32), Cell(16)
    steps = [Step("sample", RING, (), [], [x]), Step("ntt", RING, (), [Span(x, 0, 16)], [y])]
    plan = plan_memory(steps, [0, 0], 8)
    assert plan.block_of[id(x)] is not plan.block_of[id(y)]


def test_scratch_is_apart_from_everything_that_is_alive():
    _, steps = chain(["sample", "automorphism", "automorphism"])
    plan = plan_memory(steps, [0, 24, 0], 8)
    assert plan.arena_words == 16 + 16 + 24


def test_the_order_with_the_lower_peak_is_taken():
    leaves = [Cell(16) for _ in range(8)]
    steps = [Step("sample", RING, (), [], [c]) for c in leaves]
    out, sums = leaves[0], []
    for c in leaves[1:]:
        total = Cell(16)
        sums.append(Step("elementwise", RING, (), [Span(out, 0, 16), Span(c, 0, 16)], [total]))
        out = total
    graph = Steps(steps + sums, [RootSpan(Span(out, 0, 16), Domain.NTT)], [], [], [])
    kept = {id(out)}
    assert peak_words(best_order(graph), kept) == 48 < peak_words(graph.steps, kept)


def test_size_classes_waste_at_most_an_eighth():
    for words in [1, 63, 64, 65, 100, 1000, 4097, 1 << 20, (1 << 20) + 1, 12345678]:
        size = size_class(words)
        assert size >= words
        assert size <= max(64, words * 1.125 + 1)
        assert size_class(size) == size


def test_the_pool_takes_memory_back_from_the_last_handle():
    pool = Pool(get_backend("reference"))
    whole = pool.take(1000)
    view = whole.view(10, 20)
    memory = whole.memory
    del whole
    gc.collect()
    assert pool.free_words == 0
    del view
    assert pool.free_words == size_class(1000)
    assert pool.take(1000).memory is memory
    assert (pool.hits, pool.misses) == (1, 1)
    pool.trim()
    assert pool.free_words == pool.allocated_words == 0


def test_the_pool_frees_unused_memory_beyond_its_limit():
    pool = Pool(get_backend("reference"), limit_words=1000)
    held = [pool.take(512) for _ in range(4)]
    held.clear()
    assert pool.free_words == 2048
    pool.take(4096)
    assert pool.allocated_words == 4096


def test_the_pool_gives_back_what_was_not_needed_for_long_when_it_needs_something_else():
    pool = Pool(get_backend("reference"))
    big = [pool.take(1 << 12) for _ in range(3)]
    big.clear()
    for size in (512, 1024):  # until the first, all three had been needed; after it, one at a time
        for _ in range(40):
            pool.take(1 << 12)
        assert pool.free_words == 3 * (1 << 12) + (0 if size == 512 else 512)
        pool.take(size)
    assert pool.free_words == pool.allocated_words == (1 << 12) + 512 + 1024


def test_sizes_that_are_needed_in_turns_are_soon_kept():
    pool = Pool(get_backend("reference"))
    sizes = [1 << 12, 1 << 13, *[1 << 10] * 30, 1 << 14]
    for _ in range(20):
        for size in sizes:
            pool.take(size)
    before = pool.misses
    for _ in range(200):
        for size in sizes:
            pool.take(size)
    assert pool.misses == before


def test_steady_state_allocates_nothing():
    x, y = P(1, 2), P(3)

    def work():
        z = (x * y + x).automorphism(3)
        return (z * z).rescale().realize()

    work()
    work()
    pool = pool_of(backend_of("reference"))
    before = pool.misses, pool.allocated_words
    for _ in range(50):
        work()
    assert (pool.misses, pool.allocated_words) == before


def test_the_second_run_of_an_expression_is_not_scheduled():
    def work(c):
        return ((P(1, c) * P(2) + c) * (c + 1)).tolist()

    work(3)
    misses = PLANS.misses
    assert [work(c)[0] for c in (4, 5, 6)] == [30, 42, 56]
    assert PLANS.misses == misses


def test_the_cache_is_bounded_and_drops_the_oldest():
    cache = PlanCache(maxsize=2)
    backend = backend_of("reference")
    keys = [normalise([p._node]).key for p in (P(1) + P(2), P(1) * P(2), P(1) * 3)]
    for key in keys:
        cache.plan(key, backend)
    assert len(cache) == 2
    cache.plan(keys[2], backend)
    assert cache.hits == 1
    cache.plan(keys[0], backend)
    assert cache.misses == 4


def test_threads_that_realize_one_poly_see_the_whole_result():
    for _ in range(20):
        base = P(1, 2, 3)
        poly = base * base + 7
        for _ in range(10):
            poly = poly * base
        expected = (poly + 0).tolist()
        barrier = threading.Barrier(4)
        results = []

        def read(poly=poly, barrier=barrier, results=results):
            barrier.wait()
            results.append(poly.tolist())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert results == [expected] * 4


def test_poisoned_memory_never_reaches_a_result(monkeypatch):  # B36
    monkeypatch.setenv("REN_DEBUG_POISON", "1")
    a, b, c, d = P(1, 2), P(3, 4), P(5), P(6, 7)
    t = (a * b + c * d).automorphism(3).rescale()
    for _ in range(3):
        wide = (a * b + c * d).automorphism(5)
        narrow = (wide.rescale() + t).intt()
        assert max(narrow.tolist()) < 17
        assert narrow == (((a * b + c * d).automorphism(5)).rescale() + t)


def test_validation_names_the_unit(monkeypatch):
    from ren.errors import ValidationError

    monkeypatch.setenv("REN_VALIDATE", "1")
    x = (P(1, 2) * P(3) + P(4)).automorphism(3)
    key = normalise([x._node]).key
    backend = backend_of("reference")
    plan = PLANS.plan(key, backend)
    assert x.tolist()
    at = next(i for i, u in enumerate(plan.units) if u.kernel == "automorphism")
    run_unit, operands = plan.compiled_units()[at]

    def faulty(views):
        run_unit(views)
        memory, offset = views[-1]
        backend.copyin(memory, offset + 9, backend.copyout(memory, offset + 8, 1))

    plan.compiled_units()[at] = (faulty, operands)
    with pytest.raises(ValidationError, match=rf"unit {at} \(automorphism.*first at limb 1, position 1"):
        (P(1, 2) * P(3) + P(4)).automorphism(3).realize()


def test_a_schedule_that_writes_twice_or_reads_too_early_is_refused():
    cells, steps = chain(["ntt", "intt"])
    with pytest.raises(AssertionError, match="intt at 0 reads"):
        plan_memory(steps[::-1], [0, 0], 8)
    with pytest.raises(AssertionError, match="ntt at 1 writes"):
        plan_memory([steps[0], steps[0]], [0, 0], 8)
