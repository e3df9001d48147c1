from time import perf_counter
from ren.schemes.ckks import CKKSParams
from ren.schemes.ckks.ckks import Ciphertext, encode, encrypt, keygen
from ren.schemes.ckks.keys import context
import ren
import random


def time_fn(f):
    start = perf_counter()
    f()
    end = perf_counter()
    t = int((end - start) * 1e6)
    print(f"{t:6} μs")


def random_ciphertext():
    data = [random.uniform(-1, 1) for _ in range(context().params.slot_count)]
    return encrypt(encode(data, msg_bound=1.0))


def warmup():
    x = random_ciphertext()
    without_jit(x).realize()


def without_jit(x: Ciphertext) -> Ciphertext:
    for _ in range(10):
        x = 2 * x * x - 1
    return x


@ren.jit
def with_jit(x: Ciphertext) -> Ciphertext:
    for _ in range(10):
        x = 2 * x * x - 1
    return x


ctx = keygen(CKKSParams.default())
with ctx:
    warmup()

    funcs = ["without_jit", "with_jit"]
    for func_name in funcs:
        print(func_name)
        for _ in range(5):
            x = random_ciphertext()
            func = globals()[func_name]
            time_fn(lambda: func(x).realize())
        print()
