"""Names that several plugins claim: settled over all plugins at once, so that install order has no influence.

REN_PREFER decides; else core's own names, then those of Ren's own distributions stand against third parties; else every claimant is
refused. The same object registered twice is no clash. A claimant that is refused is rolled back whole; one that loses by
REN_PREFER loses just that name, which is what the user asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ren import config
from ren.plugin.discover import OWN_DISTRIBUTIONS, normalise
from ren.plugin.load import Candidate
from ren.plugin.registry import Entry, Kind
from ren.plugin.report import State


def drop_duplicates(candidates: list[Candidate]) -> None:
    """One plugin reached through two entry points is counted once, as is one beside left-over metadata whose module is gone."""
    kept: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: not c.ok):
        same_name = kept.setdefault(candidate.found.name, [])
        twin = next(
            (k for k in same_name if k.ok and (candidate.stale or candidate.ok and k.module is candidate.module)), None
        )
        if twin is None:
            same_name.append(candidate)
            continue
        what = "left-over metadata, its module is gone" if candidate.stale else "the same module"
        note = (
            f"{candidate.found.distribution} {candidate.found.version} names {candidate.record.value} ({what}); ignored"
        )
        twin.record = replace(twin.record, notes=(*twin.record.notes, note))
        candidates.remove(candidate)


def settle_clashes(candidates: list[Candidate], core: Iterable[Entry]) -> None:
    """Refuse or strip plugins until no name is claimed twice."""
    preferred = {name: normalise(distribution) for name, distribution in config.pairs("REN_PREFER").items()}
    _settle_plugin_names([c for c in candidates if c.ok], preferred)

    reserved = {(e.kind, e.name) for e in core}
    claims: dict[tuple[Kind, str], list[Candidate]] = {}
    for candidate in candidates:
        if candidate.ok:
            for key in candidate.entries:
                claims.setdefault(key, []).append(candidate)
    # Reasons are collected first and applied last: refusing one plugin must not settle the next clash in its absence.
    reasons: dict[int, list[tuple[str, str]]] = {}
    for key, claimants in sorted(claims.items()):
        kind, name = key
        if key in reserved:
            for loser in claimants:
                reasons.setdefault(id(loser), []).append((name, f"{kind} {name!r} belongs to Ren itself"))
            continue
        distinct = _distinct(key, claimants)
        if len(distinct) == 1:
            continue
        chosen = _preferred(distinct, preferred.get(name))
        if chosen is not None:
            for loser in distinct:
                if loser is not chosen:
                    del loser.entries[key]
                    note = f"{kind} {name!r} is left to {chosen.found.distribution}, as REN_PREFER says"
                    loser.record = replace(loser.record, notes=(*loser.record.notes, note))
            continue
        for loser, reason in _losers(f"{kind} {name!r}", distinct):
            reasons.setdefault(id(loser), []).append((name, reason))
    for candidate in candidates:
        found = reasons.get(id(candidate))
        if found:
            _refuse(candidate, found[0][0], "; ".join(reason for _, reason in found))


def _settle_plugin_names(candidates: list[Candidate], preferred: dict[str, str]) -> None:
    named: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        named.setdefault(candidate.found.name, []).append(candidate)
    for name, claimants in named.items():
        if len(claimants) == 1:
            continue
        chosen = _preferred(claimants, preferred.get(name))
        if chosen is not None:
            for loser in claimants:
                if loser is not chosen:
                    loser.refuse(
                        State.DISABLED, f"REN_PREFER gives the plugin name {name!r} to {chosen.found.distribution}", ""
                    )
            continue
        for loser, reason in _losers(f"the plugin name {name!r}", claimants):
            _refuse(loser, name, reason)


def _refuse(candidate: Candidate, name: str, reason: str) -> None:
    fix = (
        f"Choose with REN_PREFER={name}:<distribution>, or disable one of them with REN_DISABLE_PLUGINS=<distribution>"
    )
    if "belongs to Ren itself" in reason:
        fix = f"Its authors must choose another name. To go without it: REN_DISABLE_PLUGINS={candidate.found.distribution}"
    candidate.refuse(State.CONFLICT, reason, fix)


def _losers(what: str, claimants: list[Candidate]) -> list[tuple[Candidate, str]]:
    """Who is refused where the user prefers nobody, each with the reason that names all parties."""
    own = [c for c in claimants if c.found.distribution in OWN_DISTRIBUTIONS]
    winner = own[0] if len(own) == 1 else None
    parties = " and ".join(f"{c.found.name!r} of {c.found.distribution} {c.found.version}" for c in claimants)
    outcome = f"; {winner.found.distribution} keeps it" if winner is not None else ""
    return [(c, f"{what} is claimed by plugins {parties}{outcome}") for c in claimants if c is not winner]


def _preferred(claimants: list[Candidate], distribution: str | None) -> Candidate | None:
    """The one claimant of the preferred distribution; None if there is none, or several."""
    found = [c for c in claimants if any(d == distribution for d, _ in c.found.providers)]
    return found[0] if len(found) == 1 else None


def _distinct(key: tuple[Kind, str], claimants: list[Candidate]) -> list[Candidate]:
    """Claimants whose claims differ."""
    kept: list[Candidate] = []
    for candidate in claimants:
        if not any(candidate.entries[key].same_thing(k.entries[key]) for k in kept):
            kept.append(candidate)
    return kept
