"""Seeds: fresh from the operating system, reproducible only where that is asked for."""

import multiprocessing
import subprocess
import sys
import threading

import pytest
from ren.numtheory.sampling import fresh_seed
from ren.testing import fixed_randomness


def test_fresh_seeds_differ():
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert {len(s) for s in seeds} == {32}


def _send_seed(pipe):
    pipe.send_bytes(fresh_seed())


def test_children_after_fork_draw_their_own():
    context = multiprocessing.get_context("fork")
    seeds = {fresh_seed()}
    for _ in range(3):
        here, there = context.Pipe()
        child = context.Process(target=_send_seed, args=(there,))
        child.start()
        seeds.add(here.recv_bytes())
        child.join()
    seeds.add(fresh_seed())
    assert len(seeds) == 5


def draw(count=3):
    return [fresh_seed() for _ in range(count)]


def test_fixed_randomness_repeats():
    with fixed_randomness(7):
        first = draw()
    with fixed_randomness(7):
        second = draw()
    with fixed_randomness(8):
        third = draw()
    assert first == second
    assert len({*first, *third}) == 6


def test_kinds_of_seed_are_told_apart():
    seen = set()
    for seed in (1, "1", b"1"):
        with fixed_randomness(seed):
            seen.add(fresh_seed())
    assert len(seen) == 3


def test_fixed_randomness_ends_with_its_block():
    with pytest.raises(KeyError), fixed_randomness(7):
        raise KeyError
    with fixed_randomness(7):
        inside = fresh_seed()
        with fixed_randomness(7):
            assert fresh_seed() == inside
        after_inner = fresh_seed()
    with fixed_randomness(7):
        assert draw(2) == [inside, after_inner]
    assert fresh_seed() != fresh_seed()


def test_other_threads_stay_random():
    seeds = []
    with fixed_randomness(7):
        expected = fresh_seed()
        thread = threading.Thread(target=lambda: seeds.append(fresh_seed()))
        thread.start()
        thread.join()
    with fixed_randomness(7):
        assert fresh_seed() == expected
    assert seeds[0] != expected


def test_no_environment_variable_or_global_seed_fixes_it():
    """Seeding Python's and NumPy's generators does not make seeds repeat."""
    script = "import random, numpy; random.seed(1); numpy.random.seed(1); from ren.numtheory.sampling import fresh_seed; print(fresh_seed().hex())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "0"}
        ).stdout
        for _ in range(2)
    }
    assert len(runs) == 2
