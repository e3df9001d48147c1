"""Reproducible randomness, for tests only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ren.numtheory.sampling import deterministic_seeds


@contextmanager
def fixed_randomness(seed: int | str | bytes = 0) -> Iterator[None]:
    """Make every draw inside reproducible: keys, noise, uniform polynomials. FOR TESTS ONLY.

    Whatever is encrypted inside has no security: who knows `seed` knows the keys. The context is that of the current thread; a
    thread started inside draws real randomness unless it enters a context of its own. Entering it again starts the sequence anew.

        with fixed_randomness(7):
            a = Poly.uniform(ring)
        with fixed_randomness(7):
            b = Poly.uniform(ring)   # a == b
    """
    if isinstance(seed, bytes):
        master = b"bytes:" + seed
    elif isinstance(seed, str):
        master = b"str:" + seed.encode()
    else:
        master = b"int:" + str(int(seed)).encode()
    with deterministic_seeds(master):
        yield
