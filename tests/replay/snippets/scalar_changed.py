import ren
from ren.poly import Poly
from ren.ring import RingSpec
import random


ring = RingSpec(n=8, moduli=(17, 97))


def random_poly():
    arr = [random.randint(0, 10) for _ in range(8)]
    return Poly(arr, ring)


@ren.jit
def scalar_mul(x: Poly, y: int) -> Poly:
    print(f"building graph with y={y}")
    return x * y


x1 = random_poly()
# this call builds a graph for scalar_mul with y=2
scalar_mul(x1, 2).realize()
x2 = random_poly()
# this call reuses the graph
scalar_mul(x2, 2).realize()
x3 = random_poly()
try:
    # error: the graph cannot be reused because y changed
    scalar_mul(x3, 3).realize()
except RuntimeError as e:
    print(repr(e))
