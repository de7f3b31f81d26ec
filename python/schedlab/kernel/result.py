"""From what a guest told of a run to a result as simulations have it, by the keys of
docs/reference/result.md. What a real kernel does not tell is None, never a guess.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedlab.digests import digest_of
from schedlab.kernel.vm import POWERED_OFF
from schedlab.nice import weight_of

DIGEST_DIGITS = 16
EVIDENCE_CHARACTERS_MAX = 64 * 1024
# What only simulations tell.
SIMULATED = ("events", "ticks", "interrupts", "cpu_time_ns", "overhead_ns")
# How far a recording can be relied on.
RELIABILITY = ("lost", "others_ns", "idle_while_waiting_ns")
# Of a policy that the verifier took, and that said itself that it cannot begin.
NOT_ENABLED = "the kernel did not enable it"
BOOT_HINT = "a kernel may hang while it boots, or this machine be too busy: try --cpus 1, or again"


def parse(lines: Iterable[str]) -> list[dict]:
    """The records among a guest's lines; a firmware's noise may stand before one on its line."""
    records = []
    for line in lines:
        _, begin, rest = line.partition('{"record":')
        # One that the machine's end cut off is none.
        with contextlib.suppress(ValueError):
            records += [json.loads(begin + rest)] if begin else []
    return records


def result_of(
    records: Sequence[Mapping],
    end: str,
    message: str,
    console: str,
    *,
    until_ns: int | None = None,
    timeline: bool = False,
) -> dict:
    """The result of one boot that played one workload.

    `records` are what the guest told, see crates/kernel/src/records.rs; the machine's end is a
    word, the same in words, and the last that its kernel printed. A run that was stopped at another
    time than `until_ns` has failed. With `timeline`, every stay of a task on a CPU is kept.
    """
    told = {record["record"]: record for record in records}
    if failed := _failure_of(told, end, message, console):
        return failed
    played, schedule = told["played"]["played"], told["played"]["schedule"]
    if played["status"] == "stopped" and until_ns is None:
        limit_s = played["elapsed_ns"] / 1e9
        return failure(
            "time_limit",
            f"its tasks had not ended after {limit_s:.0f} s in the guest",
            "a smaller workload, or --until TIME to measure a part of it",
        )
    result = _metrics(played, schedule, timeline)
    nr_restarts = sum(record["record"] == "restarted" for record in records)
    return {**result, "restarts": nr_restarts} if nr_restarts else result


def inside_of(records: Sequence[Mapping]) -> dict:
    """What was seen of the policy meanwhile: `watched` and `dumps` as a simulation's result has
    them, as far as there are any. Times count from the workload's time 0, if it was played."""
    played = _played(records)
    start_ns, end_ns = played.get("start_at_monotonic_ns", 0), played.get("elapsed_ns", 0)

    def seen(number: Mapping) -> dict:
        samples = [
            [min(max(0, at_ns - start_ns), end_ns), value] for at_ns, value in number["samples"]
        ]
        return {"expression": number["expression"], "type": number["type"], "samples": samples}

    def dumped(dump: Mapping) -> dict:
        at_ns = dump["asked_at_ns"]
        at_ns = max(0, dump["at_ns"] - start_ns) if at_ns is None and start_ns else at_ns
        return {"at_ns": at_ns or 0, "text": _named(dump["text"], played)}

    told = {
        "watched": [seen(one) for one in _followed(records)],
        "dumps": [dumped(record) for record in records if record["record"] == "dumped"],
    }
    return {name: value for name, value in told.items() if value}


def _played(records: Iterable[Mapping]) -> Mapping:
    return next((one["played"] for one in records if one["record"] == "played"), {})


def _named(text: str, played: Mapping) -> str:
    """A kernel's words with tasks by their names in the workload: to the kernel they are t0 to tN.
    Their pids stay the kernel's."""
    names = {f"t{task['number']}": task["name"] for task in played.get("tasks", ())}
    return re.sub(r"\bt\d+(?=\[\d+\])", lambda task: names.get(task[0], task[0]), text)


def left_out(records: Sequence[Mapping]) -> list[str]:
    """What was seen of numbers and is not told, a line each."""
    return [
        f"note: {one['nr_left_out']} more changes of {one['expression']} are left out: --until"
        " makes a run shorter"
        for one in _followed(records)
        if one["nr_left_out"]
    ]


def _followed(records: Sequence[Mapping]) -> Iterator[Mapping]:
    for record in records:
        if record["record"] == "watched":
            yield from record["numbers"]


def printed(records: Sequence[Mapping]) -> list[str]:
    """What policies printed (`bpf_printk`), a line each, and that there was more if there was."""
    lines = []
    for record in (one for one in records if one["record"] == "printed"):
        lines += record["lines"]
        if left_out := record["nr_left_out"]:
            lines.append(f"bpf_trace_printk: {left_out} more lines were printed and are not shown")
    return lines


def failure(kind: str, message: str, hint: str = "", evidence: str = "") -> dict:
    """The result of a run without metrics. What the kernel says of a policy repeats and has a
    digest, so it is kept in a store; where the machine itself died, the run is tried again."""
    repeats = kind in ("refused", "ejected", "time_limit")
    error = dict.fromkeys(("pid", "task", "cpu")) | {"kind": kind, "message": message, "hint": hint}
    error |= {"evidence": evidence[-EVIDENCE_CHARACTERS_MAX:], "at_ns": 0}
    digest = digest_of([kind, message])[:DIGEST_DIGITS] if repeats else ""
    return {"status": "failed", "error": error, "digest": digest}


def _failure_of(told: Mapping, end: str, message: str, console: str) -> dict | None:
    """Why there are no metrics, the kernel's own reason first; None if there are."""
    if "refused" in told:
        refused = told["refused"]
        words = {"open": "it cannot be loaded", "load": "the kernel refused it"}
        how = words.get(refused["stage"], NOT_ENABLED)
        return failure("refused", f"{how}: {refused['reason']}", refused["hint"], refused["log"])
    if "ejected" in told:
        ejected = told["ejected"]
        reasons = filter(None, ("the kernel ejected it", ejected["reason"], ejected["message"]))
        why, dump = (
            _named(text, _played(told.values())) for text in (": ".join(reasons), ejected["dump"])
        )
        return failure("ejected", why, ejected["hint"], dump)
    if "error" in told:
        return failure("guest", told["error"]["message"], "", console)
    if end != POWERED_OFF or "played" not in told:
        hint = BOOT_HINT if end == "boot_timed_out" else ""
        return failure(end if end != POWERED_OFF else "guest", message, hint, console)
    return None


def _metrics(played: Mapping, schedule: Mapping | None, timeline: bool) -> dict:
    """What a play and its recording say; of one that lost events only what the tasks counted."""
    whole = schedule if schedule and not schedule["lost"] else None
    keeps = bool(timeline and whole)
    names = {str(task["number"] + 1): task["name"] for task in played["tasks"]}
    elapsed_ns = played["elapsed_ns"]
    # What tells two runs apart.
    happened = [elapsed_ns, [task["run_ns"] for task in played["tasks"]]]
    if whole:
        happened = [elapsed_ns, whole["timeline"], whole["wakeups"]]
        # The player learns of the last exit before that exit is over.
        elapsed_ns = max([elapsed_ns, *(until_ns for _, until_ns, *_ in whole["timeline"][-1:])])
    summed = {"switches": whole, "voluntary_switches": whole or played}
    summed |= {"involuntary_switches": whole or played, "migrations": whole, "wakeups": whole}
    return {
        "status": played["status"],
        "error": None,
        "digest": digest_of(happened)[:DIGEST_DIGITS],
        "makespan_ns": played["makespan_ns"],
        "elapsed_ns": elapsed_ns,
        **{name: played[name] for name in ("messages", "nr_tasks", "nr_cpus")},
        **{name: of and sum(task[name] for task in of["tasks"]) for name, of in summed.items()},
        **{name: whole and whole[name] for name in ("run_ns", "wait_ns", "wakeup_latency_ns")},
        **{name: played[name] for name in ("response_ns", "requests")},
        **{
            name: sum(group[name] for group in played["requests"])
            for name in ("deadlines", "deadline_misses")
        },
        "jain_fairness": jain_fairness(played["tasks"], elapsed_ns),
        "task_groups": list(_task_groups(played, whole)),
        "timeline": whole["timeline"] if keeps else None,
        "timeline_names": names if keeps else None,
        "recording": schedule and {name: schedule[name] for name in RELIABILITY},
        **dict.fromkeys(SIMULATED),
    }


def jain_fairness(tasks: Sequence[Mapping], elapsed_ns: int) -> float:
    """Jain's index of CPU time a second of life and weight: 1 is even, and if nothing ran; 1/n is
    one task taking all. The formula, and the reading of it, are the simulator's.

    Source: R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for
    resource allocation in shared computer systems", DEC-TR-301, 1984.
    """
    shares = []
    for task in tasks:
        exited_ns = task["exited_at_ns"]
        end_ns = elapsed_ns if exited_ns is None else min(exited_ns, elapsed_ns)
        lived_ns = max(end_ns - task["born_at_ns"], 1)
        shares.append(task["run_ns"] / weight_of(task["nice"]) / lived_ns)
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _task_groups(played: Mapping, whole: Mapping | None) -> Iterator[dict]:
    for group in played["task_groups"]:
        key = (group["name"], group["nice"])
        numbers = {t["number"] for t in played["tasks"] if (t["name"], t["nice"]) == key}
        counted = dict.fromkeys(("wait_ns", "switches", "migrations"))
        if whole:
            seen = [task for task in whole["tasks"] if task["number"] in numbers]
            counted = {name: sum(task[name] for task in seen) for name in counted}
        yield {**group, **counted}
