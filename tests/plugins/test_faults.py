"""Every way a plugin can be faulty: isolated, rolled back, named once with cause and fix; everything else works.

Faults B47, B48, B49 and B50 of the fault catalogue, and the list of the first issue.
"""

from __future__ import annotations

import sys
import warnings

import pytest
from ren.errors import MissingPluginError, PluginConflictError, PluginError, PluginWarning
from ren.plugin.manager import PluginManager, use_manager
from ren.plugin.registry import Kind
from ren.testing import PluginTester

HEAD = "from ren.plugin import PluginInfo, hookimpl\n"
GOOD = (
    HEAD
    + """
PLUGIN = PluginInfo(name="good", api="1.0", summary="does nothing wrong")
@hookimpl
def ren_register_backends(registry):
    registry.add_backend("good", lambda: object(), priority=5)
"""
)


def faulty(name: str, text: str, **info: object) -> str:
    arguments = ", ".join(f"{k}={v!r}" for k, v in {"name": name, "api": "1.0", **info}.items())
    return f"{HEAD}PLUGIN = PluginInfo({arguments})\n{text}"


FOUR = (
    "\n".join(f"    registry.add_{{kind}}('bad.{i}', 'nowhere:nothing'{{more}})" for i in range(2))
    + "\n    raise {error}\n"
)


def half_registered(hook: str, error: str) -> str:
    kind = {
        "ren_register_backends": "backend",
        "ren_register_frontends": "frontend",
        "ren_register_dialects": "dialect",
        "ren_register_passes": "pass",
        "ren_register_handlers": "handler",
    }[hook]
    body = FOUR.format(kind=kind, more=", stage='lower'" if kind == "pass" else "", error=error)
    return faulty("bad", f"@hookimpl\ndef {hook}(registry):\n{body}")


CASES = {
    "import error": ("raise ImportError('libfast.so.1: cannot open shared object file')\n", "broken", "libfast.so.1"),
    "import of a missing module": (
        "import ren_no_such_module\n",
        "missing-dependency",
        "No module named 'ren_no_such_module'",
    ),
    "import of a module Ren lacks": ("import ren.later\n", "incompatible", "No module named 'ren.later'"),
    "import of a name Ren lacks": ("from ren.plugin import Later\n", "incompatible", "cannot import name 'Later'"),
    "field of a later PluginInfo": (faulty("bad", "", later=1), "incompatible", "unexpected keyword argument 'later'"),
    "method of a later registrar": (
        faulty("bad", "@hookimpl\ndef ren_register_backends(registry): registry.add_later('x')\n"),
        "incompatible",
        "add_later",
    ),
    "argument of a later registrar": (
        faulty("bad", "@hookimpl\ndef ren_register_backends(registry): registry.add_backend('x', 'm:a', later=1)\n"),
        "incompatible",
        "unexpected keyword argument 'later'",
    ),
    "circular import": ("import ren_tester_ren_bad_bad as me\nme.later\nlater = 1\n", "broken", "AttributeError"),
    "syntax error": ("def (:\n", "broken", "SyntaxError"),
    "exit": ("raise SystemExit(3)\n", "broken", "SystemExit"),
    "exception group": (
        "raise BaseExceptionGroup('both', [KeyError(1), SystemExit()])\n",
        "broken",
        "BaseExceptionGroup",
    ),
    "recursion": ("def f(): f()\nf()\n", "broken", "RecursionError"),
    "no PLUGIN": ("x = 1\n", "broken", "has no PLUGIN"),
    "PLUGIN of another type": ("PLUGIN = {'name': 'bad'}\n", "broken", "PLUGIN of type dict"),
    "malformed api": (HEAD + "PLUGIN = PluginInfo(name='bad', api='one')\n", "broken", "major.minor"),
    "another name": (faulty("other", ""), "broken", "called 'bad' but PLUGIN.name is 'other'"),
    "api too new": (faulty("bad", "", api="2.0"), "incompatible", "hook API 2.0, this Ren has 1.0: upgrade Ren"),
    "api minor too new": (faulty("bad", "", api="1.7"), "incompatible", "hook API 1.7, this Ren has 1.0: upgrade Ren"),
    "api too old": (faulty("bad", "", api="0.9"), "incompatible", "hook API 0.9, this Ren has 1.0: upgrade the plugin"),
    "unknown hook": (
        faulty("bad", "@hookimpl\ndef ren_register_backend(registry): pass\n"),
        "incompatible",
        "did it mean ren_register_backends",
    ),
    "unknown hook argument": (
        faulty("bad", "@hookimpl\ndef ren_register_backends(registry, colour): pass\n"),
        "incompatible",
        "colour",
    ),
    "unmarked hook": (
        faulty("bad", "def ren_register_backends(registry): pass\n"),
        "broken",
        "not marked with @hookimpl",
    ),
    "missing dependency": (
        faulty("bad", "", requires=("ren_no_such_module",)),
        "missing-dependency",
        "ren_no_such_module",
    ),
    "bad factory": (
        faulty("bad", "@hookimpl\ndef ren_register_backends(registry): registry.add_backend('bad', 'no colon')\n"),
        "broken",
        "'module:attribute'",
    ),
    "same name twice": (
        faulty(
            "bad",
            "@hookimpl\ndef ren_register_backends(registry):\n    registry.add_backend('bad.0', 'm:a')\n    registry.add_backend('bad.0', 'm:b')\n",
        ),
        "broken",
        "already",
    ),
    "passes without tuple": (
        faulty(
            "bad",
            "@hookimpl\ndef ren_register_passes(registry): registry.add_pass('bad.0', 'm:a', stage='lower', after='x')\n",
        ),
        "broken",
        "tuples",
    ),
    "unknown stage": (
        faulty(
            "bad", "@hookimpl\ndef ren_register_passes(registry): registry.add_pass('bad.0', 'm:a', stage='lunch')\n"
        ),
        "broken",
        "one of clean, semantic",
    ),
    "name of core": (
        faulty("bad", "@hookimpl\ndef ren_register_backends(registry): registry.add_backend('reference', 'm:a')\n"),
        "conflict",
        "belongs to Ren itself",
    ),
    **{
        f"{hook} raises {error}": (
            half_registered(hook, error),
            "broken",
            f"calling {hook} raised {error.partition('(')[0]}",
        )
        for hook in (
            "ren_register_backends",
            "ren_register_frontends",
            "ren_register_dialects",
            "ren_register_passes",
            "ren_register_handlers",
        )
        for error in ("ValueError('half way')", "SystemExit(1)")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_fault_is_isolated_and_told_once(case: str) -> None:
    text, state, words = CASES[case]
    with PluginTester() as world:
        world.plugin("bad", text, distribution="ren-bad", version="3.1")
        world.plugin("good", GOOD)
        bad = world.record("bad")
        assert bad.state == state
        assert words in bad.reason, bad.reason
        assert bad.fix
        assert world.record("good").state == "loaded"
        names = [(e.kind, e.name) for kind in Kind for e in world.manager.registry.all(kind)]
        assert names == [(Kind.BACKEND, "good"), (Kind.BACKEND, "reference")]
        assert len(world.warnings) == 1
        for part in ("'bad'", "ren-bad", "3.1", words, bad.fix):
            assert part in world.warnings[0]
        # Told once: nothing more at later look-ups.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            world.manager.lookup(Kind.BACKEND, "good")
            world.manager.records()

        world.setenv(REN_STRICT_PLUGINS="1")
        with pytest.raises(PluginError) as error:
            world.reload().registry  # noqa: B018
        assert words in str(error.value)
        assert world.warnings == []
        assert world.record("bad").state == state


def test_cause_is_kept_with_its_traceback() -> None:
    with PluginTester() as world:
        world.plugin("bad", half_registered("ren_register_passes", "ValueError('half way')"))
        cause = world.record("bad").cause
        assert isinstance(cause, ValueError) and cause.__traceback__ is not None
        with pytest.raises(MissingPluginError, match="half way") as error:
            world.manager.lookup(Kind.PASS, "bad")
        assert error.value.__cause__ is cause


def test_registrar_is_closed_after_its_hook() -> None:
    text = faulty(
        "bad",
        "kept = []\n@hookimpl\ndef ren_register_handlers(registry):\n    kept.append(registry)\n    registry.add_handler('a.b', 'm:x')\n",
    )
    with PluginTester() as world:
        world.plugin("bad", text)
        assert world.record("bad").names == ("handler a.b",)
        (registrar,) = sys.modules["ren_tester_bad_bad"].kept
        with pytest.raises(RuntimeError, match="registration is over"):
            registrar.add_handler("a.c", "m:x")
        assert world.manager.registry.get(Kind.HANDLER, "a.c") is None


def test_keyboard_interrupt_is_not_swallowed_and_loading_can_be_retried() -> None:
    with PluginTester() as world:
        world.module("ren_tester_flag", "stop = True\n")
        world.plugin(
            "late", "import ren_tester_flag\nif ren_tester_flag.stop: raise KeyboardInterrupt\n" + faulty("late", "")
        )
        manager = PluginManager(lambda: list(world._entries))
        with pytest.raises(KeyboardInterrupt):
            manager.records()
        import ren_tester_flag  # type: ignore[import-not-found]

        ren_tester_flag.stop = False
        assert [r.state for r in manager.records()] == ["loaded"]


def test_plugin_that_asks_for_plugins_while_they_load() -> None:
    with PluginTester() as world:
        world.plugin("eager", "from ren.plugin.manager import manager\nmanager().registry\n")
        world.plugin("good", GOOD)
        asked = PluginManager(lambda: list(world._entries))
        with use_manager(asked), pytest.warns(PluginWarning, match="while they were being loaded"):
            assert [r.state for r in asked.records()] == ["broken", "loaded"]


def test_slow_import_is_loaded_and_reported_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ren.plugin.load.SLOW_IMPORT_SECONDS", 0.01)
    with PluginTester() as world:
        world.plugin("slow", "import time\ntime.sleep(0.02)\n" + faulty("slow", ""))
        record = world.record("slow")
        assert record.state == "loaded" and record.import_seconds >= 0.02
        assert (
            len(world.warnings) == 1 and "0.0 s" in world.warnings[0] and "only register factories" in world.warnings[0]
        )


@pytest.mark.parametrize(
    ("distribution", "advice"),
    [
        ("ren", 'Run in a clone of Ren: pip install -e ".[fast]"'),
        ("ren-passes", 'Run in a clone of Ren: pip install -e "./ren_passes[fast]"'),
        ("ren-bad", 'Run: pip install "ren-bad[fast]"'),
    ],
)
def test_advice_to_install_fits_the_distribution(distribution: str, advice: str) -> None:
    with PluginTester() as world:
        world.plugin(
            "bad", faulty("bad", "", requires=("ren_no_such_module",), extra="fast"), distribution=distribution
        )
        assert world.record("bad").fix == advice


def test_optional_dependency_is_quiet_until_asked_for() -> None:
    text = faulty(
        "bad",
        "@hookimpl\ndef ren_register_frontends(registry): registry.add_frontend('bad', 'm:a')\n",
        requires=("ren_no_such_module",),
        extra="bad",
    )
    with PluginTester(REN_STRICT_PLUGINS="1") as world:
        world.plugin("bad", text)
        assert world.record("bad").state == "missing-dependency"
        assert world.record("bad").withheld == ("frontend bad",)
        assert world.warnings == []
        with pytest.raises(MissingPluginError, match=r"needs ren_no_such_module.*pip install \"ren-test-bad\[bad\]\""):
            world.manager.lookup(Kind.FRONTEND, "bad")


# -- clashes ----------------------------------------------------------------------------------------------------------


def claims(plugin: str, *names: str, factory: str | None = None) -> str:
    body = "".join(f"    registry.add_handler({n!r}, {factory or f'm_{plugin}:a'!r})\n" for n in names)
    return faulty(plugin, f"@hookimpl\ndef ren_register_handlers(registry):\n{body}")


@pytest.mark.parametrize("reverse", [False, True])
def test_two_plugins_claim_one_name(reverse: bool) -> None:
    with PluginTester() as world:
        world.plugin("one", claims("one", "op.x", "op.only-one"), distribution="ren-one")
        world.plugin("two", claims("two", "op.x"), distribution="ren-two")
        world.plugin("good", GOOD)
        world.reload(reverse=reverse)
        assert [r.state for r in world.records()] == ["loaded", "conflict", "conflict"]
        assert world.manager.registry.all(Kind.HANDLER) == ()
        with pytest.raises(
            PluginConflictError,
            match=r"'one' of ren-one 1\.0 and 'two' of ren-two 1\.0.*REN_PREFER=op\.x:<distribution>",
        ):
            world.manager.lookup(Kind.HANDLER, "op.x")
        assert len(world.warnings) == 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("winner", ["ren-one", "Ren_Two"])
def test_preference_names_the_owner(winner: str, reverse: bool) -> None:
    with PluginTester(REN_PREFER=f"op.x:{winner}") as world:
        world.plugin("one", claims("one", "op.x", "op.only-one"), distribution="ren-one")
        world.plugin("two", claims("two", "op.x"), distribution="ren-two")
        world.reload(reverse=reverse)
        assert [r.state for r in world.records()] == ["loaded", "loaded"]
        assert world.manager.lookup(Kind.HANDLER, "op.x").origin.distribution == winner.lower().replace("_", "-")
        assert world.manager.lookup(Kind.HANDLER, "op.only-one").origin.plugin == "one"
        assert world.warnings == []
        loser = next(r for r in world.records() if r.distribution != winner.lower().replace("_", "-"))
        assert any("REN_PREFER" in note for note in loser.notes) and "handler op.x" not in loser.names


def test_same_object_twice_counts_once() -> None:
    with PluginTester() as world:
        world.plugin("one", claims("one", "op.x", factory="shared:thing"))
        world.plugin("two", claims("two", "op.x", factory="shared:thing"))
        assert [r.state for r in world.records()] == ["loaded", "loaded"]
        assert world.warnings == []


@pytest.mark.parametrize("reverse", [False, True])
def test_rens_own_plugin_keeps_its_name_against_a_third_party(reverse: bool) -> None:
    with PluginTester() as world:
        world.plugin("passes", claims("passes", "op.x"), distribution="ren-passes")
        world.plugin("thief", claims("thief", "op.x"), distribution="ren-thief")
        world.reload(reverse=reverse)
        assert world.record("passes").state == "loaded" and world.record("thief").state == "conflict"
        assert (
            "'passes' of ren-passes" in world.record("thief").reason
            and "ren-passes keeps it" in world.record("thief").reason
        )
        assert world.manager.lookup(Kind.HANDLER, "op.x").origin.plugin == "passes"


def test_two_plugins_of_one_name() -> None:
    with PluginTester() as world:
        world.plugin("same", claims("same", "op.x"), distribution="ren-one")
        world.plugin("same", claims("same", "op.y", factory="elsewhere:b"), distribution="ren-two")
        assert [r.state for r in world.records()] == ["conflict", "conflict"]
        assert all("ren-one" in r.reason and "ren-two" in r.reason for r in world.records())
        world.setenv(REN_PREFER="same:ren-two")
        world.reload()
        assert [(r.distribution, r.state) for r in world.records()] == [("ren-one", "disabled"), ("ren-two", "loaded")]
        assert world.warnings == []


# -- duplicates and left-overs ----------------------------------------------------------------------------------------


def test_equal_entry_points_count_once() -> None:
    with PluginTester() as world:
        world.plugin("good", GOOD, distribution="ren-a")
        value = world._entries[0][0].value
        world.entry("good", value, "ren-a")
        world.entry("good", value, "ren-b", "2.0")
        record = world.record("good")
        assert record.state == "loaded" and world.warnings == []
        assert "ren-a 1.0, ren-b 2.0" in record.notes[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_left_over_metadata_beside_a_good_installation(reverse: bool) -> None:
    with PluginTester() as world:
        world.plugin("good", GOOD, distribution="ren-a", version="2.0")
        world.entry("good", "ren_tester_gone.plugin", "ren-a", "1.0")
        world.reload(reverse=reverse)
        record = world.record("good")
        assert record.state == "loaded" and world.warnings == []
        assert any("names ren_tester_gone.plugin (left-over metadata" in note for note in record.notes)


def test_left_over_metadata_alone() -> None:
    with PluginTester() as world:
        world.entry("old", "ren_tester_gone.plugin", "ren-a", "1.0")
        record = world.record("old")
        assert record.state == "broken" and "stale" in record.fix and "ren-a" in record.fix
        assert len(world.warnings) == 1


def test_one_module_under_two_entry_point_values() -> None:
    with PluginTester() as world:
        world.plugin("good", GOOD + "import sys\nME = sys.modules[__name__]\n", distribution="ren-a")
        world.entry("good", world._entries[0][0].value + ":ME", "ren-b")
        record = world.record("good")
        assert record.state == "loaded" and world.warnings == [] and "the same module" in record.notes[0]


# -- observers --------------------------------------------------------------------------------------------------------


OBSERVERS: dict[str, dict[str, object]] = {
    "ren_before_run": {"program": 1, "workspace": 2},
    "ren_after_run": {"report": 3},
    "ren_on_run_error": {"error": ValueError("run"), "report": 4},
    "ren_after_plan_captured": {"plan": 5},
}


@pytest.mark.parametrize("hook", OBSERVERS)
def test_raising_observer_neither_stops_the_run_nor_the_other_observers(hook: str) -> None:
    arguments = OBSERVERS[hook]
    first = next(iter(arguments))
    seen: list[object] = []
    with PluginTester() as world:
        world.plugin("a-bad", faulty("a-bad", f"@hookimpl\ndef {hook}(): raise ValueError('observer')\n"))
        world.plugin("b-good", faulty("b-good", f"seen = None\n@hookimpl\ndef {hook}({first}): seen.append({first})\n"))
        manager = world.manager
        sys.modules["ren_tester_b_good_b_good"].seen = seen  # type: ignore[attr-defined]
        with pytest.warns(PluginWarning, match=f"{hook} raised ValueError: observer") as caught:
            manager.notify(hook, **arguments)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            manager.notify(hook, **arguments)
        assert seen == [arguments[first]] * 2
        assert any(hook in note for note in world.record("a-bad").notes)
        world.setenv(REN_STRICT_PLUGINS="1")
        with pytest.raises(PluginError, match="observer"):
            manager.notify(hook, **arguments)
