"""Random sets of plugins with random claims: the outcome is a function of the set, and the rules hold."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from ren.plugin.discover import OWN_DISTRIBUTIONS
from ren.plugin.registry import Kind
from ren.testing import PluginTester

NAMES = ("x", "y", "z")
DISTRIBUTIONS = ("ren-one", "ren-two", "ren-three", "ren-passes")
claim = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("own", "shared")), max_size=3)
plugin_sets = st.dictionaries(
    st.tuples(st.sampled_from(DISTRIBUTIONS), st.sampled_from(("p", "q", "r"))), claim, min_size=1, max_size=5
)


def text(distribution: str, plugin: str, claims: dict[str, str]) -> str:
    lines = [
        f"    registry.add_handler('{name}', '{'shared' if how == 'shared' else distribution.replace('-', '_') + '_' + plugin}:f')"
        for name, how in claims.items()
    ]
    return (
        f"from ren.plugin import PluginInfo, hookimpl\nPLUGIN = PluginInfo(name='{plugin}', api='1.0')\n"
        "@hookimpl\ndef ren_register_handlers(registry):\n" + "\n".join([*lines, "    pass\n"])
    )


@settings(max_examples=60, deadline=None)
@given(
    plugin_sets,
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(DISTRIBUTIONS), max_size=2),
    st.integers(0, 999),
)
def test_outcome(plugins: dict[tuple[str, str], dict[str, str]], preferred: dict[str, str], seed: int) -> None:
    outcomes = []
    for attempt in range(3):
        order = sorted(plugins)
        random.Random(seed + attempt).shuffle(order)
        with PluginTester(REN_PREFER=",".join(f"{k}:{v}" for k, v in preferred.items())) as world:
            for distribution, plugin in order:
                world.plugin(plugin, text(distribution, plugin, plugins[distribution, plugin]), distribution)
            records = world.records()
            entries = world.manager.registry.all(Kind.HANDLER)
            outcomes.append(
                (
                    [(r.name, r.distribution, r.state, r.reason, r.names, r.notes) for r in records],
                    [(e.name, e.factory) for e in entries],
                )
            )
    assert outcomes[0] == outcomes[1] == outcomes[2]

    state = {(r.distribution, r.name): r.state for r in records}
    owners = {e.name: (e.origin.distribution, e.origin.plugin) for e in entries}
    assert all(state[o] == "loaded" for o in owners.values()), "only loaded plugins contribute names"
    for name, distribution in preferred.items():
        claimants = [
            k
            for k, claims in plugins.items()
            if claims.get(name) == "own" and k[0] == distribution and state[k] == "loaded"
        ]
        if len(claimants) == 1:
            assert owners[name] == claimants[0], "the preferred distribution owns the name"
    for key, claims in plugins.items():
        if state[key] == "conflict" and key[0] in OWN_DISTRIBUTIONS:
            rivals = [
                k
                for k in plugins
                if k != key and k[0] in OWN_DISTRIBUTIONS and (k[1] == key[1] or set(plugins[k]) & set(claims))
            ]
            assert rivals, "a third party never takes a name of ours"
    alone = [
        k for k in plugins if not any(k != o and (o[1] == k[1] or set(plugins[o]) & set(plugins[k])) for o in plugins)
    ]
    assert all(state[k] == "loaded" for k in alone), "who claims nothing of others is not touched"
