"""The verb `schedlab agree`: the simulator's decisions beside a real kernel's, or a policy beside
the kernel's own scheduler whose name it has."""

from collections.abc import Sequence
from itertools import groupby

import click

from schedlab import catalogue
from schedlab.commands import options
from schedlab.kernel import agreement, originals
from schedlab.kernel.conduct import SAME, Conduct
from schedlab.kernel.referee import SCENARIOS, judge
from schedlab.report import forms, tables
from schedlab.report.progress import Progress

HEADS = ("scenario", "by", "switches", "of its own", "shares", "delay", "first other", "verdict")
LEFT = ("scenario", "by", "verdict")


@click.command("agree")
@click.argument("policy")
@click.option(
    "--original",
    is_flag=True,
    help="Beside the kernel's own scheduler that the policy is named after.",
)
@click.option("--scenario", "wanted", multiple=True, help="Only this one; can be repeated.")
@click.option(
    "--kernel",
    help="Kernel of the cache.  [default: 6.18; with --original those that"
    " the policy's set stands for]",
)
@options.json_option
def agree_verb(policy, original, wanted, kernel, as_json) -> bool:
    """Compare the simulator's decisions with a real kernel's.

    The kernel runs in a deterministic virtual machine. For each scenario: whether the same tasks
    were chosen in the same order, and if not, the first decision that differs, with what both had
    decided before and who was waiting. Exit code 1 if any differs.

    With --original: the kernel's own scheduler beside the policy in a kernel and in the simulator,
    by switches, shares of CPU time and delays of wake-ups. Exit code 1 if any figure differs.
    """
    if original:
        return _beside_original(policy, wanted, kernel, as_json)
    source, set_name = catalogue.find_policy(policy)
    paths = [catalogue.find(SCENARIOS, name) for name in wanted]
    paths = paths or list(catalogue.names(SCENARIOS).values())
    scenarios = list(judge(source, paths, kernel, set_name))
    if as_json:
        tables.print_json([one.as_json() for one in scenarios])
    for one in scenarios if not as_json else ():
        both = one.comparison
        what = f"agree: {len(both.played)} decisions"
        if not both.agrees:
            decisions = f"{len(both.simulated)} simulated and {len(both.played)} played"
            what = f"differ at decision {both.differs_at} of {decisions}"
        share = f"shares within {both.share_difference_percent:.2f} points"
        head = f"{one.policy:12} {one.scenario:12} {what}, {share}"
        click.echo("\n".join([head, *agreement.story(both, one.names)]))
    return not all(one.comparison.agrees for one in scenarios)


def _beside_original(policy: str, wanted: Sequence[str], kernel: str | None, as_json: bool) -> bool:
    scenarios = originals.scenarios(wanted)
    with Progress(0, "") as progress:

        def tell(what: str) -> None:
            progress.update(progress.nr_done, what)

        found = list(originals.judge(policy, scenarios, kernel, tell))
    if as_json:
        tables.print_json([one.as_json() for one in found])
    else:
        for of, group in groupby(found, key=lambda one: one.kernel):
            click.echo(f"{found[0].policy} beside Linux {of.release}")
            _print_comparisons(list(group))
        for one in found if wanted else ():
            _print_stories(one)
    likenesses = [beside.likeness for one in found for beside in one.beside]
    return not all(likeness.verdict == SAME for likeness in likenesses)


def _print_comparisons(comparisons: Sequence[originals.Comparison]) -> None:
    table = tables.headed(HEADS, left=LEFT)
    for one in comparisons:
        table.add_row(one.scenario, one.kernel.name, *_figures(one.original))
        for beside in one.beside:
            likeness, first = beside.likeness, beside.first
            percent = likeness.switches_percent
            verdict = likeness.verdict
            if likeness.differing:
                verdict = f"{verdict}: {forms.list_text(likeness.differing)}"
            switches, delay = (_figures(beside.conduct)[at] for at in (0, 3))
            of = len(first.played)
            other = forms.DASH if first.agrees else f"{first.differs_at} of {of}"
            points = likeness.share_points
            share = forms.DASH if points is None else f"{points:.2f}"
            off = f"{percent or 0:+.0f} %"
            table.add_row("", _place(beside), switches, off, share, delay, other, verdict)
    tables.print_table(table)


def _figures(conduct: Conduct) -> tuple[str, str, str, str]:
    """Switches, two figures that only a comparison has, and the delay."""
    switches, delay = f"{conduct.switches_median:,.0f}", conduct.delay_ns_median
    if len(conduct.switches) > 1:
        switches += f" ({min(conduct.switches):,} to {max(conduct.switches):,})"
    return switches, "", "", forms.DASH if delay is None else forms.time_text(delay)


def _place(beside: originals.Beside) -> str:
    return "simulated" if beside.kernel is None else f"policy in {beside.kernel}"


def _print_stories(comparison: originals.Comparison) -> None:
    for beside in comparison.beside:
        arms = (_place(beside), f"{comparison.kernel.name} itself")
        if lines := agreement.story(beside.first, comparison.names, arms):
            click.echo("\n".join(["", comparison.scenario, *lines]))
