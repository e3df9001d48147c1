import ren
from ren.poly import Poly
from ren.ring import RingSpec


ring = RingSpec(n=8, moduli=(17, 97))
captures = 0


@ren.jit
def step(x: Poly, y: Poly, offset: Poly) -> Poly:
    global captures
    captures += 1
    return (x + y + offset).contiguous()


out1 = step(
    Poly([1, 2, 3, 4, 0, 0, 0, 0], ring),
    Poly([4, 3, 2, 1, 0, 0, 0, 0], ring),
    Poly([1, 1, 1, 1, 0, 0, 0, 0], ring),
)
print("captures after first call:", captures)
print("first output:", out1.to_centered_list())

out2 = step(
    Poly([2, 2, 2, 2, 0, 0, 0, 0], ring),
    Poly([1, 1, 1, 1, 0, 0, 0, 0], ring),
    Poly([0, 1, 0, 1, 0, 0, 0, 0], ring),
)
print("captures after second call:", captures)
print("second output:", out2.to_centered_list())
