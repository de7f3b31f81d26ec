"""The verb `schedlab check`: does a policy do what it must, and what it promises?"""

from pathlib import Path

import click

from schedlab import user_file, whole_file
from schedlab.commands import options
from schedlab.experiment import conformance_table, junit
from schedlab.experiment.conformance import ORDERS, ORDERS_MAX, SEED, SEEDS, SEEDS_MAX, check
from schedlab.report import tables
from schedlab.shown import print_data, print_note


@click.command("check")
@click.argument("policy")
@options.set_option
@click.option("--seeds", type=click.IntRange(0, SEEDS_MAX), default=SEEDS,
              help="Random scenarios to try.")  # fmt: skip
@options.seed_option("The first of them, and the seed of the other scenarios.", SEED)
@click.option("--orders", type=click.IntRange(0, ORDERS_MAX), default=ORDERS,
              help="Orders of simultaneous events to try in each small scenario.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME", help="Only this, or `random`; repeatable.")
@click.option("--promises", type=options.FILE, metavar="FILE",
              help="What it promises, in place of the file beside it.")  # fmt: skip
@click.option(
    "--verifier/--no-verifier",
    default=True,
    show_default=True,
    help="Also ask the newest kernel at hand, in a virtual machine, if it takes the policy.",
)
@options.jobs_option("Trials")
@click.option("--out", type=options.FOLDER, default=Path("schedlab-check"),
              help="Where to write the files of scenarios that are violated.")  # fmt: skip
@click.option("--junit", "junit_path", type=options.FILE, metavar="FILE",
              help="Also write what was asked, and its verdicts, as JUnit's XML.")  # fmt: skip
@options.quiet_option
@options.json_option
def check_verb(
    policy,
    settings,
    seeds,
    seed,
    orders,
    only,
    promises,
    verifier,
    jobs,
    out,
    junit_path,
    quiet,
    as_json,
) -> bool:
    """Check what a policy must do, and what it promises.

    Scenarios made to ask one question each, random ones, and small ones in every order of
    simultaneous events; all simulated. Promises stand in NAME.promises.toml beside the policy and
    are of its default tunables, or in the file given; what is not promised is shown as a figure. A
    real kernel is asked whether it takes the policy, if one is at hand. Exit code 1 if anything is
    violated.
    """
    if junit_path:
        user_file.refuse_unwritable(junit_path, what="file")
    if promises:
        user_file.refuse_unfit(
            f"file of promises {str(promises)!r}",
            promises,
            user_file.WRITTEN_BYTES_MAX,
            "docs/guides/check.md tells what stands in one",
            is_empty_unfit=True,
        )
    asked = {"seeds": seeds, "seed": seed, "orders": orders, "only": only, "jobs": jobs}
    asked |= {"verifier": verifier, "promises": promises and str(promises)}
    findings, violations = check(policy, settings, **asked, out=out, quiet=quiet)
    if junit_path:
        with whole_file.named_errors(str(junit_path), "give another file with --junit"):
            whole_file.write(junit_path, junit.junit_text(findings, violations))
    if as_json:
        tables.print_json(findings.as_json(violations))
        return bool(violations)
    tables.print_table(conformance_table.findings_table(findings))
    for line in conformance_table.violation_lines(findings, violations):
        print_note(line)
    for left_out in conformance_table.left_out_texts(findings):
        print_note(f"\nnote: {left_out}")
    print_data(f"\n{conformance_table.summary_text(findings)}")
    if any(violation["replay"] for violation in violations):
        where = f"the machines and workloads in {out}"
        print_note(f"the replays read {where}, which nothing else needs")
    return bool(violations)
