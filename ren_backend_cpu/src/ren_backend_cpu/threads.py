"""The team of threads that share the phases of a plan (`kernels.drive`).

Helpers are Python threads that run one compiled loop without the interpreter lock: they look for published phases for about a millisecond after
the last one, then sleep until the next plan wakes them. A plan never waits for a helper to come, so nothing here can block it: one that
finds the team busy with another thread's plan runs alone. There is one team per process, made at the first plan that is worth it.

A child after fork has no helpers and a count of one (`ren.backend.threads`); it may ask for more.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from typing import Any

from ren.backend.threads import get_threads

from ren_backend_cpu.kernels import drive
from ren_backend_cpu.tables import aligned_words

#: Looks of an idle helper before it sleeps: about a millisecond, more than passes between two operations of a program.
_LOOKS = 4000


class Helper:
    """One thread. asleep: it waits, or is about to wait, for `wake`; only the team's owner sets it back."""

    def __init__(self, number: int, state: Any) -> None:
        self.asleep = False
        self.wake = threading.Lock()
        self.wake.acquire()
        self.memory: Any = None
        self.thread = threading.Thread(
            target=self._loop, args=(number, state), name=f"ren helper {number + 1}", daemon=True
        )
        self.thread.start()

    def _loop(self, number: int, state: Any) -> None:
        help_team = drive.help_team.made
        address = int(state.ctypes.data)
        while not state[drive.STOP]:
            help_team(address, number, _LOOKS)
            self.asleep = True
            if state[drive.STOP]:  # set before this helper was seen asleep: nobody will wake it
                break
            self.wake.acquire()


class Team:
    """`size` threads, the caller of `run` included."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._state = aligned_words(drive.MEMORY + size)
        self._state[:] = 0
        self._address = int(self._state.ctypes.data)
        self._owned = threading.Lock()
        self._words = 0
        self._drive = drive.drive_shared.made
        drive.help_team.made  # noqa: B018 - compiled here, not by every helper
        self._helpers: list[Helper] = []
        for number in range(size - 1):
            try:
                self._helpers.append(Helper(number, self._state))
            except RuntimeError as error:
                warnings.warn(f"only {number + 1} of {size} threads could be started: {error}", stacklevel=2)
                break

    def run(self, plan: int, slots: int, row_words: int, scratch_words: int) -> bool:
        """Run a plan with the helpers; False, and nothing done, if another thread has them.

        row_words, scratch_words: the most that a phase of the plan needs per thread.
        """
        if not self._owned.acquire(blocking=False):
            return False
        try:
            words = row_words + 8 + scratch_words
            if words > self._words:
                self._give_memory(words)
            self._wake()
            self._drive(plan, slots, self._address, 1 + len(self._helpers))
        finally:
            self._owned.release()
        return True

    def _wake(self) -> None:
        for helper in self._helpers:
            if helper.asleep:
                helper.asleep = False
                helper.wake.release()

    def _give_memory(self, words: int) -> None:
        """New memory for the helpers, none of which uses the old one while no phase is published."""
        for number, helper in enumerate(self._helpers):
            helper.memory = aligned_words(words)
            self._state[drive.MEMORY + number] = int(helper.memory.ctypes.data)
        self._words = words

    def close(self, wait: bool = False) -> None:
        """Send the helpers away. A plan that is running ends without them."""
        self._state[drive.STOP] = 1
        if self._owned.acquire(timeout=1.0):
            self._wake()
            self._owned.release()
        if wait:
            for helper in self._helpers:
                helper.thread.join(1.0)


_lock = threading.Lock()
_team: Team | None = None


def team() -> Team | None:
    """The team for the number of threads that is set now; None for one thread."""
    wanted = get_threads()
    found = _team
    if wanted == 1 or found is not None and found.size == wanted:
        return found if wanted > 1 else None
    return _new_team(wanted)


def _new_team(wanted: int) -> Team:
    global _team
    with _lock:
        if _team is None or _team.size != wanted:
            old, _team = _team, Team(wanted)
            if old is not None:
                old.close()
        return _team


def _after_fork() -> None:
    global _lock, _team
    _lock = threading.Lock()  # its holder, if any, does not exist in the child
    _team = None  # neither do the helpers


def _at_exit() -> None:
    if _team is not None:
        _team.close(wait=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
