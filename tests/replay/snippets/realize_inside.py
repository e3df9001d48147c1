import ren
from ren.poly import Poly
from ren.ring import RingSpec

ring = RingSpec(n=8, moduli=(17, 97))


# Not allowed; .realize() breaks the computation graph into two pieces
@ren.jit
def add_two(x: Poly) -> Poly:
    y = x + 1
    y.realize()
    return y + 1


x = Poly([1, 2, 3, 4, 0, 0, 0, 0], ring)
try:
    add_two(x).realize()
except RuntimeError as e:
    print(repr(e))
