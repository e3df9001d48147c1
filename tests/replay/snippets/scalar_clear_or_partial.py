import ren
from ren.poly import Poly
from ren.ring import RingSpec
import random
import functools

ring = RingSpec(n=8, moduli=(17, 97))


def random_poly():
    arr = [random.randint(0, 10) for _ in range(8)]
    return Poly(arr, ring)


@ren.jit
def scalar_mul(x: Poly, y: int) -> Poly:
    print(f"building graph with y={y}")
    return x * y


for y in (2, 3):
    for _ in range(5):
        x = random_poly()
        scalar_mul(x, y).realize()
    scalar_mul.clear_jit()


def scalar_mul_no_jit(x: Poly, y: int) -> Poly:
    print(f"building graph with y={y}")
    return x * y


for y in (2, 3):
    jitted = ren.jit(functools.partial(scalar_mul_no_jit, y=y))
    for _ in range(5):
        x = random_poly()
        jitted(x).realize()
