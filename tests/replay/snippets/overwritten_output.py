import ren
from ren.poly import Poly
from ren.ring import RingSpec


ring = RingSpec(n=8, moduli=(17, 97))


def constant_poly(c: int) -> Poly:
    arr = [c] + [0] * 7
    return Poly(arr, ring)


@ren.jit
def mul(x: Poly, y: Poly) -> Poly:
    return x * y


z = constant_poly(0)
one = constant_poly(1)
two = constant_poly(2)
z += mul(one, one)
z += mul(two, two)
# incorrect result: calling mul(two, two) overwrites the output of mul(one, one),
# but the computation z += mul(one, one) has not been realized yet
print(z.tolist())

z = constant_poly(0)
one = constant_poly(1)
two = constant_poly(2)
z += mul(one, one)
z.realize()
z += mul(two, two)
# correct result: mul(one, one) added to x before calling mul(two, two)
print(z.tolist())

# The engine correctly handles the special case where the input from one computation
# is fed into the next


@ren.jit
def mul_add(x: Poly, y: Poly, z: Poly) -> Poly:
    return x * y + z


z = constant_poly(0)
one = constant_poly(1)
two = constant_poly(2)
z = mul_add(one, one, z)
z = mul_add(two, two, z)
# correct result: special handling by engine avoids previous issue
print(z.tolist())
