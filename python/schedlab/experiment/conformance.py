"""Whether a policy does what every policy must, and what it promises.

The work is the core's. It is cut into trials, which worker processes make.
"""

import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlab import catalogue, values, whole_file
from schedlab.digests import attributes
from schedlab.errors import SchedlabError, refuse_unknown
from schedlab.experiment import sweep, verifier
from schedlab.experiment.cells import parse_settings
from schedlab.experiment.definition import in_range
from schedlab.report.progress import Progress

# Random scenarios that a worker tries at a time: a fraction of a second.
RANDOM_AT_ONCE = 50
# Failing random scenarios that are made smaller; the others are most likely like them.
SHRUNK_MAX = 3
TRIES_MAX = 5_000
SEEDS_MAX = ORDERS_MAX = 10_000_000
# What is tried unless the user says otherwise.
SEEDS, SEED, ORDERS = 1_000, 1, 20_000
# What is asked of a kernel, as a scenario is called.
VERIFIER = "verifier"
# In what the core advises where only the simulator lacks something.
ON_VM = "--on vm"
# What the core calls a property, what people call it, and its unit.
PROPERTIES = {
    "sound": ("ends, breaks no rule, keeps to CPUs", ""),
    "wait_ms_max": ("longest wait", "ms"),
    "wakeup_ms_max": ("longest wait of a light task woken up", "ms"),
    "idle_ms_max": ("longest idle time while a task waits", "ms"),
    "share_error_percent_max": ("largest error of a share of CPU time", "%"),
}


@dataclass(frozen=True)
class Checked:
    """A policy, and how much is tried of it. Plain values: workers load their own.

    `seeds` random scenarios from `seed` on, and so many `orders` of simultaneous events in each
    small one; `only` these scenarios by name, "random" or "verifier". `set_words` are options for
    `tunables`. With `verifier`, a kernel is asked whether it takes the policy. `promises` is a file
    of promises in place of the one beside the policy.
    """

    label: str
    given: str
    path: str
    tunables: Mapping[str, int]
    set_words: Sequence[str]
    seeds: int = SEEDS
    seed: int = SEED
    orders: int = ORDERS
    only: Sequence[str] = ()
    verifier: bool = True
    promises: str | None = None

    @property
    def asks_kernel(self) -> bool:
        """Whether a kernel is to be asked."""
        return self.verifier and (not self.only or VERIFIER in self.only)


@dataclass(frozen=True)
class Trial:
    """A piece of work for one worker: `kind` is made, random, small or shrink."""

    policy: Checked
    kind: str
    name: str = ""
    seed: int = 0
    count: int = 0

    def say(self) -> str:
        """What it is about."""
        if self.kind != "random":
            return self.name or f"random scenario {self.seed}"
        return f"random scenarios {self.seed} to {self.seed + self.count - 1}"


def check(
    policy: str,
    settings: Sequence[str] = (),
    *,
    jobs: int | None = None,
    out: Path | None = None,
    quiet: bool = True,
    **scope: Any,
) -> tuple["Findings", list[dict]]:
    """Tries all that a policy must do, and what it promises; gives findings and violations.

    `settings` are tunables as TUNABLE=VALUE, `scope` is seeds, seed, orders, only, verifier and
    promises of `Checked`.
    By default one trial a CPU is made at a time. The files of violated scenarios are written to
    `out`, if it is given. Raises SchedlabError if there is nothing to try, or the policy does not
    begin anywhere.
    """
    checked = _choose(policy, settings, scope)
    trials = _trials(checked)
    if not trials and not checked.asks_kernel:
        raise SchedlabError(
            "nothing to check",
            "give --seeds or --orders a number above 0, or leave out --no-verifier",
        )
    findings = Findings(checked)
    with Progress(len(trials), "trials", quiet) as progress:
        _make(trials, findings, sweep.jobs(jobs), progress)
        if checked.asks_kernel and not findings.refusal():
            tell = functools.partial(progress.update, 0)
            findings.verifier = verifier.ask(policy, checked.tunables, tell)
    if (asked := findings.verifier) and asked.verdict == "not_asked" and not trials:
        raise SchedlabError(f"no kernel was asked, and nothing else: {asked.what}", asked.hint)
    if refusal := findings.refusal():
        refusal = refusal.removeprefix(f"policy {catalogue.stem_of(Path(checked.path))}: ")
        refusal, _, hint = refusal.partition("\nhint: ")
        hint = hint or catalogue.native().way_out(refusal)
        if ON_VM in (hint or ""):
            hint += (
                f"; `schedlab check {policy} --only {VERIFIER}` asks a kernel whether it takes it"
            )
        elif not hint and settings:
            hint = "`schedlab list policies -v` tells what the tunables that --set gives mean"
        elif not hint:
            hint = "`schedlab run` shows what `init` prints with bpf_printk"
        raise SchedlabError(f"policy {checked.label} does not begin: {refusal}", hint)
    violations = findings.violations()
    for violation in violations:
        hint = findings.verifier.hint if violation["check"] == VERIFIER else None
        violation["hint"] = hint or catalogue.native().way_out(violation["what"])
        violation["again"] = _again(violation, checked)
        violation["replay"] = out and _replay(violation, checked, out)
    return findings, violations


def _choose(text: str, settings: Sequence[str], scope: Mapping[str, Any]) -> Checked:
    """The policy, compiled once so that what is wrong with it is told before anything is tried."""
    in_range("--seeds", scope.get("seeds", SEEDS), 0, SEEDS_MAX)
    in_range("--orders", scope.get("orders", ORDERS), 0, ORDERS_MAX)
    path, set_name = catalogue.find_policy(text)
    policy = catalogue.load_policy(path)
    label = catalogue.label_of(catalogue.with_set(text))
    texts = {}
    for name, value in values.parse_assignments("--set", settings).items():
        bare = name.removeprefix(f"{label}.").removeprefix(f"{catalogue.label_of(text)}.")
        texts[bare] = value
    tunables = {**catalogue.values_of_set(policy, set_name), **parse_settings(policy, label, texts)}
    # No scenario at all: only what the file of promises says is looked at.
    catalogue.native().check_random(policy, tunables, 0, 0, scope.get("promises"))
    set_words = [word for text in settings for word in ("--set", text)]
    return Checked(label, text, str(path), tunables, set_words, **scope)


def _trials(policy: Checked) -> list[Trial]:
    """What is to be tried: scenarios by name, small ones, random ones in pieces."""
    made, small = catalogue.native().check_names()
    known = [*made, *small, "random", VERIFIER]
    refuse_unknown("scenario", policy.only, known)
    wanted, seed, orders = policy.only or known, policy.seed, policy.orders
    trials = [Trial(policy, "made", name, seed) for name in made if name in wanted]
    if orders:
        trials += [Trial(policy, "small", name, 0, orders) for name in small if name in wanted]
    end = seed + policy.seeds if "random" in wanted else seed
    for first in range(seed, end, RANDOM_AT_ONCE):
        trials.append(Trial(policy, "random", "", first, min(RANDOM_AT_ONCE, end - first)))
    return trials


# ---- in the worker ------------------------------------------------------------------------------


def make_trial(trial: Trial) -> sweep.Outcome:
    """Makes one trial in this process; `result` is what the core says."""
    native = catalogue.native()
    make, *rest = {
        "made": (native.check_made, trial.name, trial.seed),
        "small": (native.check_small, trial.name, trial.count),
        "random": (native.check_random, trial.seed, trial.count),
        "shrink": (native.shrink_random, trial.seed, TRIES_MAX),
    }[trial.kind]
    path, tunables = trial.policy.path, trial.policy.tunables
    rest.append(trial.policy.promises)
    return sweep.outcome_of(
        lambda: {"result": {"found": make(catalogue.load_policy(path), tunables, *rest)}}
    )


# ---- in the coordinator -------------------------------------------------------------------------


class Findings:
    """What came of the trials so far."""

    def __init__(self, policy: Checked):
        self.policy = policy
        self.rows: list[dict] = []
        self.small: list[dict] = []
        self.random = {"tried": 0, "idle_ms_max": 0.0, "wait_ms_max": 0.0, "failed": []}
        # Of failing random scenarios, by their seeds, what is left of them.
        self.smallest: dict[int, dict] = {}
        # What was not tried, because the policy's runs have no end.
        self.untried: list[Trial] = []
        # What a kernel says of it, if one was to be asked.
        self.verifier: verifier.Asked | None = None

    def wants(self, trial: Trial) -> bool:
        """Whether a trial is still worth making: a policy whose runs have no end is not tried in
        ever more scenarios."""
        problems = [failed["problem"] for failed in self.random["failed"]]
        problems += [row["problem"] for row in self.rows if row["problem"]]
        problems += [scope["failed"]["problem"] for scope in self.small if scope["failed"]]
        if sum(map(_is_costly, problems)) < SHRUNK_MAX:
            return True
        self.untried.append(trial)
        return False

    def add(self, trial: Trial, outcome: sweep.Outcome) -> None:
        """Adds what came of a trial."""
        if (part := outcome.result.get("found")) is None and trial.kind != "shrink":
            raise SchedlabError(f"{trial.say()}: {outcome.result['error']['message']}")
        if trial.kind == "made":
            self.rows += part
        elif trial.kind == "small":
            self.small.append({"name": trial.name, **part})
        elif trial.kind == "random":
            self.random["tried"] += part["tried"]
            self.random["failed"] += part["failed"]
            for name in ("idle_ms_max", "wait_ms_max"):
                self.random[name] = max(self.random[name], part[name])
        elif part:
            self.smallest[trial.seed] = part

    def refusal(self) -> str | None:
        """Why the policy did not even begin, if it did so nowhere."""
        problems = [row["problem"] for row in self.rows if row["property"] == "sound"]
        problems += [scope["failed"] and scope["failed"]["problem"] for scope in self.small]
        problems += [failed["problem"] for failed in self.random["failed"]]
        has_begun = self.random["tried"] > len(self.random["failed"])
        are_refused = all(problem and problem["kind"]["what"] == "refused" for problem in problems)
        return problems[0]["message"] if problems and are_refused and not has_begun else None

    def to_shrink(self) -> list[int]:
        """The first failing random scenario of each kind, unless it takes too long to shrink."""
        kinds, seeds = [], []
        for failed in self.random["failed"]:
            kind = failed["problem"]["kind"]
            if kind not in kinds and not _is_costly(failed["problem"]):
                kinds.append(kind)
                seeds.append(failed["seed"])
        return seeds[:SHRUNK_MAX]

    def violations(self) -> list[dict]:
        """Everything that is violated: `check`, `what` in a sentence, and whose files to keep."""
        violations, ended_early = [], set()
        if self.verifier and self.verifier.verdict == "violated":
            what = f"{self.verifier.kernel}: {self.verifier.what}"
            violations.append({"check": VERIFIER, "what": what, "files": None, "seed": None})
        for row in self.rows:
            check = row["check"]
            if row["verdict"] != "violated" or check in ended_early:
                continue
            violations.append({"check": check, "what": _what(row), "files": check, "seed": None})
            if row["problem"]:
                # Its figures are as they are because of that.
                ended_early.add(check)
        seeds = self.smallest or {failed["seed"] for failed in self.random["failed"][:SHRUNK_MAX]}
        failures = [(scope["name"], None, scope["failed"]) for scope in self.small]
        failures += [("random", failed["seed"], failed) for failed in self.random["failed"]]
        for check, seed, failed in failures:
            if failed and (seed is None or seed in seeds):
                violation = {"check": check, "what": failed["problem"]["message"], "seed": seed}
                files = None if seed is None else str(seed)
                violations.append(violation | {"files": files, "smallest": self.smallest.get(seed)})
        return violations

    def as_json(self, violations: Sequence[Mapping]) -> dict:
        """All that was found."""
        return {
            "policy": self.policy.label,
            "tunables": self.policy.tunables,
            **attributes(self, "rows", "small", "random"),
            "untried": [trial.say() for trial in self.untried],
            "verifier": self.verifier and asdict(self.verifier),
            "violations": [
                {name: v.get(name) for name in ("check", "what", "hint", "seed", "again", "replay")}
                for v in violations
            ],
        }


def _what(row: Mapping) -> str:
    if row["measured"] is None:
        return row["detail"]
    name, unit = PROPERTIES[row["property"]]
    measured, limit = f"{row['measured']:,.3f} {unit}", f"{row['limit']:,g} {unit}"
    return f"{name}: {measured}, at most {limit} ({row['detail']})"


def _is_costly(problem: Mapping) -> bool:
    """Whether it took seconds to see, and made smaller would take as many a try."""
    return problem["kind"].get("failure") == "limit"


def _make(trials: Sequence[Trial], findings: Findings, jobs: int, progress: Progress) -> None:
    def tell_slow(trial: Trial) -> None:
        progress.note(f"note: {trial.say()}: still at work; Ctrl-C stops it")

    runs = sweep.run_cells(trials, jobs, make_trial, findings.wants, tell_slow, list)
    for trial, outcome in runs:
        findings.add(trial, outcome)
        progress.done()
    made, small = catalogue.native().check_names()
    # Trials end in any order; a table does not change with it.
    findings.rows.sort(key=lambda row: made.index(row["check"]))
    findings.small.sort(key=lambda scope: small.index(scope["name"]))
    findings.random["failed"].sort(key=lambda failed: failed["seed"])
    for seed in () if findings.refusal() else findings.to_shrink():
        trial = Trial(findings.policy, "shrink", "", seed)
        findings.add(trial, sweep.run_alone(trial, make_trial, tell_slow))


def _again(violation: Mapping, policy: Checked) -> str:
    words = ["schedlab", "check", policy.given, *policy.set_words]
    words += ["--promises", policy.promises] if policy.promises else []
    words += ["--only", violation["check"]]
    if violation["seed"] is not None:
        words += ["--seeds", "1", "--seed", str(violation["seed"])]
    elif violation["files"] is None and violation["check"] != VERIFIER:
        words += ["--orders", str(policy.orders)] if policy.orders != ORDERS else []
    else:
        words += ["--seed", str(policy.seed)] if policy.seed != SEED else []
    return shlex.join(words)


def _replay(violation: Mapping, policy: Checked, out: Path) -> str | None:
    """Writes a violated scenario's files, and gives the command that runs it; None without any."""
    if violation["files"] is None:
        return None
    smallest = violation.get("smallest")
    files = smallest["files"] if smallest else catalogue.native().check_files(violation["files"])
    words = ["schedlab", "run", "--strict", policy.given, *policy.set_words]
    with whole_file.named_errors(f"a scenario in {out}", "give another directory with --out"):
        out.mkdir(parents=True, exist_ok=True)
        for kind in ("machine", "workload"):
            path = out / f"{files[f'{kind}_name']}.toml"
            path.write_text(files[kind])
            # A text with a slash is a path wherever a name does.
            words += [f"--{kind}", str(path) if "/" in str(path) else f"./{path}"]
    seed = policy.seed if violation["seed"] is None else violation["seed"]
    return shlex.join([*words, "--seed", str(seed)])
