"""The `ren` command: what is installed, whether it works, how fast it is, compile ahead.

Exit status: 0 all is well, 1 something is not (its reason is printed), 2 wrong usage. A faulty plugin alone does not fail a command, except
under REN_STRICT_PLUGINS=1.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict

from ren import config
from ren.errors import PluginWarning, RenError
from ren.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. `arguments` without the program name; None means those of the process."""
    options = _parser().parse_args(arguments)
    # The commands print states and reasons themselves; the warnings would say the same twice.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        try:
            status: int = options.run(options)
        except RenError as error:
            print(f"ren: {error} [{error.code}]", file=sys.stderr)
            return 1
        except BrokenPipeError:  # `ren plugins | head`
            sys.stderr.close()
            return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ren", description="Encrypted computing: what is installed, and whether it works."
    )
    parser.add_argument("--version", action="version", version=f"ren {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="command")
    plugins = commands.add_parser("plugins", help="installed plugins, their state, why one was left out and the fix")
    plugins.add_argument("--json", action="store_true", help="the same as JSON")
    plugins.set_defaults(run=_plugins)
    backends = commands.add_parser("backends", help="devices: installed, importable, present, working")
    backends.add_argument("--json", action="store_true", help="the same as JSON")
    backends.set_defaults(run=_backends)
    check = commands.add_parser("check", help="encrypt, compute and decrypt once on every device that works")
    check.add_argument("--device", action="append", help="only this device (may be repeated)")
    check.set_defaults(run=_check)
    warm = commands.add_parser("warmup", help="compile now what first use would compile, and measure what kernels cost")
    warm.add_argument("--device", help="the device to warm up; default: the one that is used by default")
    warm.add_argument("--no-calibrate", action="store_true", help="compile only; predicted times stay what they are")
    warm.set_defaults(run=_warmup)
    bench = commands.add_parser(
        "bench", help="times of CKKS operations here, and how near they are to the machine's limits"
    )
    bench.add_argument("--device", help="the device to time; default: the one that is used by default")
    bench.add_argument("--preset", action="append", help="a parameter set (may be repeated); default: two usual ones")
    bench.add_argument(
        "--seconds", type=float, default=0.4, help="how long to time each operation (default: %(default)s)"
    )
    bench.add_argument("--json", action="store_true", help="the same as JSON")
    bench.set_defaults(run=_bench)
    return parser


def _plugins(options: argparse.Namespace) -> int:
    from ren.plugin.manager import manager
    from ren.plugin.report import table

    records = manager().records()
    if options.json:
        print(json.dumps([r.as_dict() for r in records], indent=2))
    else:
        print(table(records))
    return int(config.flag("REN_STRICT_PLUGINS") and any(r.faulty for r in records))


def _backends(options: argparse.Namespace) -> int:
    from ren.backend.select import backends

    records = backends()
    if options.json:
        print(json.dumps([asdict(r) for r in records], indent=2))
        return 0
    print(f"{'':<2}{'device':<12}{'installed':<11}{'imports':<9}{'present':<9}{'works':<7}{'plugin'}")
    for r in records:
        facts = (r.facts.installed, r.facts.importable, r.facts.device_present, r.facts.device_works)
        shown = "".join(f"{'yes' if fact else 'no':<{width}}" for fact, width in zip(facts, (11, 9, 9, 7), strict=True))
        print(f"{'* ' if r.default else '  '}{r.name:<12}{shown}{r.plugin} ({r.distribution})")
        for text in (r.facts.detail, r.facts.reason, r.facts.fix):
            if text:
                print(f"{'':<14}{text}")
    print("* used where no device is given")
    return 0


def _check(options: argparse.Namespace) -> int:
    from ren.backend.select import backends
    from ren.plugin.manager import manager
    from ren.selfcheck import check_device

    print(f"ren {VERSION}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    for name in config.unknown_variables():
        print(f"  {name} is set, but Ren has no such variable")
    for plugin in manager().records():
        if plugin.faulty:
            print(f"  {plugin.explain()}")
    # One that REN_BACKEND asks for is named even where it does not work.
    asked = [name for name in (config.text("REN_BACKEND"),) if name is not None]
    wanted = options.device or dict.fromkeys([*asked, *(r.name for r in backends() if r.facts.device_works)])
    failed = False
    for device in wanted:
        result = check_device(device)
        failed |= not result.ok
        print(f"  {device:<12}{'ok' if result.ok else 'FAILED':<8}{result.text}")
    return int(failed)


def _warmup(options: argparse.Namespace) -> int:
    from ren.backend.capability import Calibrated, Warmable
    from ren.backend.select import get_backend

    backend = get_backend(options.device)

    def progress(text: str) -> None:
        print(f"{backend.name}: {text}", flush=True)

    started = time.perf_counter()
    if isinstance(backend, Warmable):
        backend.warmup(progress)
    else:
        progress("nothing to compile")
    if isinstance(backend, Calibrated) and not options.no_calibrate:
        progress("measuring what kernels cost: other work on this machine makes predicted times too long")
        backend.calibrate(progress)
    progress(f"ready after {time.perf_counter() - started:.1f} s")
    return 0


def _bench(options: argparse.Namespace) -> int:
    from ren import bench

    report = bench.run(options.device, options.preset or bench.PRESETS, options.seconds)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(bench.text(report))
    return 0
