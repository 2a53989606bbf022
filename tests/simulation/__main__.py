"""Plays many histories, or one again: ``python -m tests.simulation --help``."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final

from tests.simulation.choices import Picks, Replayed, decoded
from tests.simulation.exhaustive import Bound, explore_all
from tests.simulation.exploration import Tally, explore
from tests.simulation.on_postgres import Comparison
from tests.simulation.postgres_replay import Difference
from tests.simulation.replay_server import replay_server
from tests.simulation.shrinking import replayed, shrunk
from tests.simulation.simulation import INVARIANTS
from tests.simulation.small_worlds import SMALL_WORLDS
from tests.simulation.wandering import SCENARIOS, wander
from tests.support.postgres_servers import any_migrated_database

SECONDS_BETWEEN_LINES: Final = 60


def play_many(options: Namespace) -> int:
    """Play the histories of a seed and print what came of them; 1 when one went wrong."""

    started = time.perf_counter()
    tally = explore(
        options.seed, options.histories, processes=options.processes, on_progress=_progress(options)
    )
    _print_totals(tally, time.perf_counter() - started, options)
    if not tally.broken:
        return 0
    first = tally.broken[0]
    _say(f"\n{replayed(first) if options.unshrunk else shrunk(first)}")
    return 1


def try_everything() -> int:
    """Play every history of every small world within the bound; 1 when one went wrong."""
    for name in SMALL_WORLDS:
        for bound in (Bound(faults=0), Bound(faults=2, preemptions=1)):
            found = explore_all(name, bound)
            _say(str(found))
            if found.violations:
                _say(f"{found.story}\n\n" + "\n".join(map(str, found.violations)))
                return 1
    return 0


def replay(code: str) -> int:
    """Tell the story of one history; 1 when it goes wrong."""
    scenario, picks = _decoded(code)
    history = wander(scenario, Replayed(picks))
    _say(str(history))
    return 1 if history.violations else 0


def _decoded(code: str) -> tuple[str, Picks]:
    scenario, _, word = code.partition("-")
    if scenario not in SCENARIOS:
        sys.exit(f"--replay {code!r} names no scenario: it begins with one of {', '.join(sorted(SCENARIOS))}")
    return scenario, decoded(word)


def play_on_postgres(options: Namespace) -> int:
    """Play the histories of a seed, or one again, in memory and on a real PostgreSQL; 1 when they differ."""

    async def compare(database_url: str, comparison: Comparison) -> None:
        async with replay_server(database_url) as server:
            if options.replay:
                scenario, picks = _decoded(options.replay)
                await comparison.add(scenario, Replayed(picks), server)
            else:
                await comparison.add_seeded(options.seed, range(options.histories), server)

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # what is lost on purpose is not worth a warning
    comparison, started = Comparison(on_history=_progress(options)), time.perf_counter()
    with any_migrated_database() as database_url:
        try:
            asyncio.run(compare(database_url, comparison))
        except Difference as difference:
            _say(str(difference))
            return 1
    seconds = time.perf_counter() - started
    _say(
        f"{comparison}\nseed {options.seed}, {seconds:.0f} s: {comparison.compared / seconds:.1f} per second"
    )
    return 0


def _progress(options: Namespace) -> Callable[[int], None]:
    """Says how far it is: all the time on a terminal, now and then in a file."""
    said = time.monotonic()

    def show(played: int) -> None:
        nonlocal said
        line = f"{played:,} of {options.histories:,} histories"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{line}")
        elif (now := time.monotonic()) - said >= SECONDS_BETWEEN_LINES:
            said = now
            sys.stderr.write(f"{line}\n")

    return show


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _print_totals(tally: Tally, seconds: float, options: Namespace) -> None:
    histories = tally.histories.total()
    kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.histories.items()))
    _say(
        f"{histories:,} histories ({kinds}) in {seconds:.0f} s with {options.processes} processes: "
        f"{histories / seconds:.0f} per second\n"
        f"seed {options.seed}, {tally.steps:,} steps, {tally.commits:,} commits held against"
        f" {len(INVARIANTS)} invariants, {len(tally.broken)} violations"
    )
    _say("injected: " + ", ".join(f"{kind} {count:,}" for kind, count in tally.faults.most_common()))


def main() -> int:
    """See the module."""
    parser = ArgumentParser(prog="python -m tests.simulation", description="Explores histories of the jobs.")
    parser.add_argument("--histories", type=int, default=10_000, metavar="N", help="how many to play")
    parser.add_argument("--seed", default="0", metavar="S", help="another seed, other histories")
    parser.add_argument("--processes", type=int, default=2, metavar="P", help="how many to play at once")
    parser.add_argument(
        "--small-worlds", action="store_true", help="all histories of the small worlds instead"
    )
    parser.add_argument(
        "--unshrunk", action="store_true", help="tell a history that goes wrong as it was found"
    )
    parser.add_argument(
        "--on-postgres", action="store_true", help="play each on a real PostgreSQL too, and compare"
    )
    parser.add_argument("--replay", metavar="CODE", help="play this one history and tell its story")
    options = parser.parse_args()
    if options.on_postgres:
        return play_on_postgres(options)
    if options.replay:
        return replay(options.replay)
    return try_everything() if options.small_worlds else play_many(options)


if __name__ == "__main__":
    sys.exit(main())
