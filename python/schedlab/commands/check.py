"""The verb `schedlab check`: does a policy do what it must, and what it promises?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from schedlab.commands import options
from schedlab.errors import EXIT_FOUND
from schedlab.experiment import table
from schedlab.experiment.conformance import (
    ORDERS,
    ORDERS_MAX,
    SEED,
    SEEDS,
    SEEDS_MAX,
    Checked,
    Findings,
    check,
)
from schedlab.report import tables
from schedlab.shown import print_data, print_note

# Of the places in which the same was found so many are named.
ALIKE_SHOWN_MAX = 5


@click.command("check")
@click.argument("policy")
@options.set_option
@click.option(
    "--seeds",
    type=click.IntRange(0, SEEDS_MAX),
    default=SEEDS,
    show_default=True,
    help="Random scenarios to try.",
)
@options.seed_option("The first of them, and the seed of the other scenarios.", SEED)
@click.option(
    "--orders",
    type=click.IntRange(0, ORDERS_MAX),
    default=ORDERS,
    show_default=True,
    help="Orders of simultaneous events to try in each small scenario.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this, or `random`; repeatable.")
@options.jobs_option("Trials")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("schedlab-check"),
    show_default=True,
    help="Where to write the files of scenarios that are violated.",
)
@options.quiet_option
@options.json_option
def check_verb(policy, settings, seeds, seed, orders, only, jobs, out, quiet, as_json) -> int:
    """Check what a policy must do, and what it promises.

    Scenarios made to ask one question each, random ones, and small ones in every order of
    simultaneous events; all simulated. Promises stand in NAME.promises.toml beside the policy, and
    are of its default tunables; what is not promised is shown as a figure. Exit code 1 if anything
    is violated. A policy is native code that runs with your rights.
    """
    asked = {"seeds": seeds, "seed": seed, "orders": orders, "only": only, "jobs": jobs}
    found, violations = check(policy, settings, **asked, out=out, quiet=quiet)
    if as_json:
        tables.print_json(found.as_json(violations))
    else:
        rows, small = found.told_once()
        table.print_table(table.check_table(rows, found.random, small))
        _say(found.policy, found, violations)
        if any(violation["replay"] for violation in violations):
            told = f"the replays read the machines and workloads in {out}, which nothing else needs"
            print_note(told)
    return EXIT_FOUND if violations else 0


def _say(policy: Checked, found: Findings, violations: Sequence[Mapping]) -> None:
    """What was violated and how to see it again, on stderr; then how much holds."""
    alike: dict[str, list[Mapping]] = {}
    for violation in violations:
        alike.setdefault(found.cause(violation["what"]), []).append(violation)
    for violation, *others in alike.values():
        print_note(f"\nviolated: {violation['check']}: {violation['what']}")
        _, hint = found.crashes.get(violation["what"], (None, None))
        if hint:
            print_note(f"hint: {hint}")
        smallest = violation.get("smallest")
        if smallest:
            cut = ", perhaps not the least" if smallest["is_cut_short"] else ""
            print_note(
                f"made smaller: {_count(smallest['nr_tasks'], 'task')} on"
                f" {_count(smallest['nr_cpus'], 'CPU')}{cut}, after {smallest['tried']} runs"
            )
        print_note(f"again: {violation['again']}")
        if violation["replay"]:
            print_note(f"replay: {violation['replay']}")
        if others:
            places = ", ".join(map(_place, others[:ALIKE_SHOWN_MAX]))
            more = len(others) - ALIKE_SHOWN_MAX
            places += f" and {more} more" * (more > 0)
            print_note(f"the same in: {places}; {len(others) + 1} times in all")
    counts = dict.fromkeys(("holds", "violated", "not_promised"), 0)
    for row in found.rows:
        counts[row["verdict"]] += 1
    nr_violated = counts["violated"] + sum(bool(scope["failed"]) for scope in found.small)
    nr_violated += bool(found.random["failed"])
    parts = [f"{nr_violated or 'nothing'} violated"]
    if found.rows:
        parts.append(
            f"of {_count(len(found.rows), 'property', 'properties')} {counts['holds']} hold,"
            f" {counts['not_promised']} not promised"
        )
    if found.small:
        orders = _count(sum(scope["tried"] for scope in found.small), "order")
        parts.append(f"{orders} of {_count(len(found.small), 'small scenario')}")
    if found.random["tried"]:
        failed = f"{len(found.random['failed']):,} failed"
        parts.append(f"{_count(found.random['tried'], 'random scenario')}, {failed}")
    if found.untried:
        nr_random = sum(trial.count for trial in found.untried if trial.kind == "random")
        left_out = [trial.name for trial in found.untried if trial.kind != "random"]
        left_out += [_count(nr_random, "random scenario")] if nr_random else []
        parts.append("the rest left out")
        print_note(
            "\nnote: the policy ends its process or does not come back, again and again,"
            f" so this was left out: {', '.join(left_out)}"
        )
    print_data(f"\n{policy.label}: {'; '.join(parts)}")


def _place(violation: Mapping) -> str:
    """Its scenario; of a random one its number too."""
    seed = "" if violation["seed"] is None else f" {violation['seed']}"
    return f"{violation['check']}{seed}"


def _count(number: int, what: str, several: str | None = None) -> str:
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"
