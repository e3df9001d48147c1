import ren
from ren.poly import Poly
from ren.ring import RingSpec


ring = RingSpec(n=8, moduli=(17, 97))
x = Poly([1, 2, 3, 4, 0, 0, 0, 0], ring)
y = Poly([5, 6, 7, 8, 0, 0, 0, 0], ring)
z = Poly([9, 0, 1, 2, 0, 0, 0, 0], ring)


@ren.jit
def add_poly(x: Poly, c: Poly) -> Poly:
    return x + c


old_num_plans = 0


def plan_added() -> bool:
    global old_num_plans
    added = len(add_poly._plans) > old_num_plans
    old_num_plans = len(add_poly._plans)
    return added


def print_plan_added(name):
    if plan_added():
        print(f"added plan for {name}")
    else:
        print(f"reused plan for {name}")


add_poly(x, y).realize()
print_plan_added("x + y")
add_poly(x, z).realize()
print_plan_added("x + z")
add_poly(x, Poly.const(7, ring))
print_plan_added("x + 7")
add_poly(x, Poly.const(8, ring))
print_plan_added("x + 8")

ring = RingSpec(n=4, moduli=(17, 97))
x = Poly([1, 2, 3, 4], ring)
y = Poly([5, 6, 7, 8], ring)
add_poly(x, y).realize()
print_plan_added("new ring")
