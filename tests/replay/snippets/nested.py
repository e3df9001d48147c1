import ren
from ren.poly import Poly
from ren.ring import RingSpec


ring = RingSpec(n=8, moduli=(17, 97))
x = Poly([1, 2, 3, 4, 0, 0, 0, 0], ring)


@ren.jit
def inner(x: Poly) -> Poly:
    return x + 1


# nested jit is not allowed
@ren.jit
def outer(x: Poly) -> Poly:
    return inner(x) * 2


try:
    outer(x).realize()
except RuntimeError as e:
    print(repr(e))


# use .fn to get the non-jitted version of the inner function
@ren.jit
def outer_fixed(x: Poly) -> Poly:
    return inner.fn(x) * 2  # pyright: ignore


outer_fixed(x).realize()
