import ren


@ren.jit
def non_poly(x: float) -> float:
    for _ in range(10):
        x = 2 * x * x - 1
    return x


try:
    non_poly(0.5)
except RuntimeError as e:
    print(repr(e))
