import ren
from ren.poly import Poly
from ren.ring import RingSpec

ring = RingSpec(n=8, moduli=(17, 97))


# Not allowed; uses randomness
@ren.jit
def add_noise(x: Poly) -> Poly:
    return x + Poly.ternary(ring)


x = Poly([1, 2, 3, 4, 0, 0, 0, 0], ring)
try:
    add_noise(x).realize()
except RuntimeError as e:
    print(repr(e))
