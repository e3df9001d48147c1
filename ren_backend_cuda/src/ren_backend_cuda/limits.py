"""Launch configurations that a GPU accepts, as a check that needs no GPU.

A launch past a limit fails with "invalid argument" at best, far from its cause, and only on the card that has the limit. The
limits per architecture are those of NVIDIA's programming guide, table "technical specifications per compute capability"; on a GPU the
device's own figures are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from ren_backend_cuda.source import LaunchError

Dim = tuple[int, int, int]

#: Dynamic shared memory that a kernel gets without asking for more (`max_dynamic_shared_size_bytes`).
PLAIN_SHARED = 48 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one block and one grid may be. shared: bytes of shared memory of a block, after opting in."""

    shared: int
    registers: int = 64 * 1024
    threads: int = 1024
    block: Dim = (1024, 1024, 64)
    grid: Dim = (2**31 - 1, 65535, 65535)


#: Compute capabilities that the tests check without a device.
LIMITS = {
    "sm_80": Limits(shared=163 * 1024),
    "sm_86": Limits(shared=99 * 1024),
    "sm_90": Limits(shared=227 * 1024),
    "sm_120": Limits(shared=99 * 1024),
}


@dataclass(frozen=True, slots=True)
class Resources:
    """What the assembler says that one kernel needs. bound: threads per block it was compiled for, 1024 where the source says nothing."""

    registers: int = 0
    shared: int = 0
    stack: int = 0
    spills: int = 0
    bound: int = 1024


def check_launch(
    kernel: str, grid: Dim, block: Dim, dynamic_shared: int, limits: Limits, used: Resources = Resources()
) -> None:
    """Raise LaunchError, saying which limit, unless a device with these limits can run the launch."""
    threads = block[0] * block[1] * block[2]

    def refuse(what: str) -> None:
        raise LaunchError(f"kernel {kernel}, grid {grid}, block {block}: {what}", subject=kernel)

    if len(grid) != 3 or len(block) != 3 or min(*grid, *block) < 1:
        refuse("grid and block are three positive numbers each")
    if any(b > limit for b, limit in zip(block, limits.block, strict=True)):
        refuse(f"a block is at most {limits.block}")
    if any(g > limit for g, limit in zip(grid, limits.grid, strict=True)):
        refuse(f"a grid is at most {limits.grid}")
    if threads > limits.threads:
        refuse(f"{threads} threads in a block, at most {limits.threads}")
    if threads > used.bound:
        refuse(f"{threads} threads in a block, but it is compiled for {used.bound} (__launch_bounds__)")
    shared = dynamic_shared + used.shared
    if dynamic_shared < 0 or shared > limits.shared:
        refuse(f"{shared} bytes of shared memory, at most {limits.shared}")
    # Registers are given out to warps, in units of 8 a thread.
    registers = -(-used.registers // 8) * 8 * -(-threads // 32) * 32
    if registers > limits.registers:
        refuse(f"{used.registers} registers for each of {threads} threads: {registers}, at most {limits.registers}")
