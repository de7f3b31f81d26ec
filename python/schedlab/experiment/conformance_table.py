"""What `schedlab check` found, as people read it."""

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from schedlab.experiment.conformance import PROPERTIES, VERIFIER, Findings
from schedlab.report.forms import count_text
from schedlab.report.tables import headed

VERDICTS = {
    "holds": "holds", "violated": "VIOLATED", "not_promised": "not promised",
    "not_asked": "not asked",
}  # fmt: skip
# What differs where the same mistake is met: a task, as in `worker[7]`, and numbers except those
# of lines, as in `mine.bpf.c:12`.
TASK = re.compile(r"\S+\[\d+\]")
NUMBER = re.compile(r"(?<![:\w])(?:0x[0-9a-f]+|\d[\d.,]*)")
# Whose mistake it is, as the simulator and as a verifier tell it, and a queue that is not there.
FUNCTION = re.compile(r"\.bpf\.c:\d+: (\w+): |the verifier refused (\w+): ")
NO_QUEUE = re.compile(r"(?:non-existent DSQ|invalid DSQ ID) (0x[0-9a-f]+)")
# Of what a verifier says so many lines are shown, the last.
LOG_LINES_MAX = 12
# Of the places in which the same was found so many are named.
ALIKE_SHOWN_MAX = 5


def findings_table(findings: Findings) -> Table:
    """A row a property: what was measured, what is promised, and whether it holds."""
    names = ("scenario", "property", "verdict")
    table = headed(("scenario", "property", "measured", "at most", "verdict"), left=names)
    table.columns[1].no_wrap = False
    above = ""
    for row in [*findings.rows, *findings.small]:
        if "check" in row:
            name, unit = PROPERTIES[row["property"]]
            figures = [_figure(row[which], unit) for which in ("measured", "limit")]
            scenario, above = row["check"] if row["check"] != above else "", row["check"]
            table.add_row(scenario, name, *figures, VERDICTS[row["verdict"]])
            continue
        all_of = "all of them" if row["is_exhaustive"] else "there are more"
        orders = f"{count_text(row['tried'], 'order')} of events"
        what = f"{orders}, {all_of}; {count_text(row['distinct'], 'schedule')}"
        table.add_row(row["name"], what, "", "", "VIOLATED" if row["failed"] else "holds")
    random = findings.random
    if random["tried"]:
        nr_failed = len(random["failed"])
        what = f"{count_text(random['tried'], 'random scenario')}, {nr_failed:,} failed"
        table.add_row("random", what, "", "", "VIOLATED" if nr_failed else "holds")
    if asked := findings.verifier:
        what = f"{asked.kernel or 'a kernel'} takes its object"
        table.add_row(VERIFIER, what, "", "", VERDICTS[asked.verdict])
    return table


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f} {unit}"
    return f"{value:.3g} {unit}" if value >= 0.01 or not value else f"<0.01 {unit}"


def violation_lines(findings: Findings, violations: Sequence[Mapping]) -> Iterator[str]:
    """What was violated and how to see it again; each cause once, in its smallest scenario."""
    alike: dict[object, list[Mapping]] = {}
    for violation in violations:
        alike.setdefault(_cause(violation), []).append(violation)
    for same in alike.values():
        # One that was made smaller is understood sooner.
        by_run = [one for one in same if one["check"] != VERIFIER]
        violation = next((one for one in by_run if one.get("smallest")), (by_run or same)[0])
        others = [one for one in same if one is not violation]
        yield f"\nviolated: {violation['check']}: {violation['what']}"
        if hint := violation["hint"]:
            yield f"hint: {hint}"
        if smallest := violation.get("smallest"):
            size = f"{count_text(smallest['nr_tasks'], 'task')} on"
            size += f" {count_text(smallest['nr_cpus'], 'CPU')}"
            cut = ", perhaps not the least" * smallest["is_cut_short"]
            yield f"made smaller: {size}{cut}, after {smallest['tried']} runs"
        if violation["check"] == VERIFIER and not violation["hint"]:
            yield from findings.verifier.log.strip().splitlines()[-LOG_LINES_MAX:]
        yield f"again: {violation['again']}"
        if violation["replay"]:
            yield f"replay: {violation['replay']}"
        if others:
            # Of a random scenario its number too.
            places = [f"{v['check']} {v['seed']}".removesuffix(" None") for v in others]
            more = len(others) - ALIKE_SHOWN_MAX
            shown = ", ".join(places[:ALIKE_SHOWN_MAX]) + f" and {more} more" * (more > 0)
            yield f"the same in: {shown}; {len(others) + 1} times in all"


def _cause(violation: Mapping) -> object:
    """What violations have in common that one mistake made: of one with a known way out that, and
    the function or the queue that it is about."""
    what, hint = violation["what"], violation["hint"]
    if found := NO_QUEUE.search(what):
        return "queue", int(found[1], 16)
    if hint and (found := FUNCTION.search(what)):
        return hint, found[1] or found[2]
    # One mistake meets other tasks and other numbers in each scenario.
    return NUMBER.sub("0", TASK.sub("TASK", what))


def left_out_texts(findings: Findings) -> Iterator[str]:
    """What was not tried, and why."""
    asked = findings.verifier
    if asked and asked.verdict == "not_asked":
        yield f"no kernel was asked whether it takes the policy: {asked.what}"
        if asked.hint:
            yield f"for that: {asked.hint}"
    if not findings.untried:
        return
    nr_random = sum(trial.count for trial in findings.untried if trial.kind == "random")
    names = [trial.name for trial in findings.untried if trial.kind != "random"]
    names += [count_text(nr_random, "random scenario")] if nr_random else []
    yield f"its runs have no end, again and again, so this was left out: {', '.join(names)}"


def summary_text(findings: Findings) -> str:
    """How much holds, in a line."""
    small, random = findings.small, findings.random
    verdicts = [row["verdict"] for row in findings.rows]
    nr_violated = verdicts.count("violated") + sum(bool(scope["failed"]) for scope in small)
    nr_violated += bool(random["failed"])
    asked = findings.verifier
    nr_violated += bool(asked and asked.verdict == "violated")
    parts = [f"{nr_violated or 'nothing'} violated"]
    if asked and asked.verdict == "not_asked":
        # That alone would promise too much.
        parts[0] += " that a simulation shows, and no kernel was asked"
    if verdicts:
        several = "1 property" if len(verdicts) == 1 else f"{len(verdicts):,} properties"
        holds, not_promised = (verdicts.count(word) for word in ("holds", "not_promised"))
        parts.append(f"of {several} {holds} hold, {not_promised} not promised")
    if small:
        orders = count_text(sum(scope["tried"] for scope in small), "order")
        parts.append(f"{orders} of {count_text(len(small), 'small scenario')}")
    if random["tried"]:
        scenarios = count_text(random["tried"], "random scenario")
        parts.append(f"{scenarios}, {len(random['failed']):,} failed")
    if findings.untried:
        parts.append("the rest left out")
    return f"{findings.policy.label}: {'; '.join(parts)}"
