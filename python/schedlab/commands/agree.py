"""The verb `schedlab agree`: the simulator's decisions beside a real kernel's."""

import click

from schedlab import catalogue
from schedlab.commands import options
from schedlab.kernel import agreement
from schedlab.kernel.referee import SCENARIOS, judge
from schedlab.report import tables


@click.command("agree")
@click.argument("policy")
@click.option("--scenario", "wanted", multiple=True, help="Only this one; can be repeated.")
@click.option("--kernel", help="Kernel of the cache.  [default: 6.18]")
@options.json_option
def agree_verb(policy, wanted, kernel, as_json) -> bool:
    """Compare the simulator's decisions with a real kernel's.

    The kernel runs in a deterministic virtual machine. For each scenario: whether the same tasks
    were chosen in the same order, and if not, the first decision that differs, with what both had
    decided before and who was waiting. Exit code 1 if any differs.
    """
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
