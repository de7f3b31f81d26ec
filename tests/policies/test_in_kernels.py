"""Goal: on two kernels with sched_ext, on 1, 2 and 4 CPUs, every policy is accepted and schedules
four workloads to the end; a policy with a mistake ends with the kernel's reason.

Method: four boots, of each kernel with two numbers of CPUs, load one policy after the other and
play all workloads under each. A boot for each kernel loads all mistakes. Skipped, with the
reason, without QEMU, kernels, clang or the guest.

`make kernel-table` (KERNELS=write) plays longer, and writes what comes of it into docs/kernels.md,
of all policies or of those that POLICY names; there shares by nice value are compared with closed
forms, and with plain earliest deadline first for bfs. That simulator and kernel give the same
shares is tested in test_agreement.py.
"""

import functools
import heapq
import itertools
import os
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from booted_kernels import KERNELS, PLAY_LIMIT_NS, RECORD_KIB, booted, needed, object_of
from schedlab import catalogue
from schedlab.kernel import result
from schedlab.nice import weight_of

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
WRITE = os.environ.get("KERNELS") == "write"
# Of which policies rows are to be written; all if it names none.
ASKED = tuple(os.environ.get("POLICY", "").split())
PAGE = ROOT / "docs" / "kernels.md"

CPUS = (1, 2, 4)
# What tests boot; `make kernel-table` boots all. All count instructions but the last: its CPUs run
# at the same time, as those of a machine do, and its clock is this machine's.
BOOTS = ((KERNELS[0], 1), (KERNELS[0], 4), (KERNELS[1], 2), (KERNELS[1], 4))
POLICIES = (
    *("fifo", "round_robin", "linux_2_4", "o1", "cfs_2007", "rfs"),
    *("cfs", "cfs_gavl", "timering", "bfs", "eevdf"),
)
# Those that keep sums of what waits on each CPU, which CPUs that pull at one time must not spoil.
KEEPS_SUMS = ("cfs_2007", "rfs", "cfs", "cfs_gavl", "timering", "eevdf")
# What a kernel may go through until it accepts a policy; its own limit is a million for each of a
# policy's programs. Under emulation thirty thousand take half a second.
VERIFIED_INSTRUCTIONS_MAX = 60_000
# Uses every call that kernels have renamed; a policy, but none to compare.
RENAMED = "renamed_calls"
# The kernel's own scheduler, before any policy is loaded.
OWN = "the kernel's own"
OF_TESTS = ROOT / "crates" / "kernel" / "tests" / "policies"

HACKBENCH = ("hackbench", {"groups": "1", "loops": "10"})
COUNTER = ("counter", {"n": "4"})
LAT_CTX = ("lat_ctx", {"rounds": "1000"})
# Tasks come to the play with a history, sleep averages and ticks left, that is played out by then.
NICE_FROM_NS = 2_000_000_000

NICE_VALUES = (-5, 0, 5, 10)
SETTLE_NS_DETERMINISTIC = 8_000_000_000
REQUESTED = 64  # the kind of an end that we asked for


def nice_shares(nr_cpus, length):
    """As many tasks of each nice value as there are CPUs."""
    return ("nice_shares", {"copies": str(nr_cpus), "length": length})


# ---- what is booted -----------------------------------------------------------------------------


def plays_of(workloads, nr_cpus, deterministic):
    return [
        {
            "kind": "play",
            "workload": f"/{name}.toml",
            "set": parameters,
            "seed": 1,
            "counts_instructions": deterministic,
            "record_kib_per_cpu": RECORD_KIB // nr_cpus,
        }
        for name, parameters in workloads
    ]


@dataclass
class Stint:
    """What came of one policy in a boot: its plays, and how it came and went."""

    attached: dict
    plays: list = field(default_factory=list)
    end: dict | None = None


def stints(kernel, nr_cpus, policies, workloads_of, deterministic=False):
    """The stint of each policy, by name, OWN first. One that is ejected is the last."""
    files = {
        f"/{name}.toml": (ROOT / "workloads" / f"{name}.toml").read_bytes()
        for policy in policies
        for name, _ in workloads_of(policy)
    }
    work = plays_of(workloads_of(OWN), nr_cpus, deterministic) if OWN in policies else []
    for policy in (policy for policy in policies if policy != OWN):
        source = (OF_TESTS if policy == RENAMED else ROOT / "policies") / f"{policy}.bpf.c"
        files[f"/{policy}.o"] = object_of(source).read_bytes()
        work += [{"kind": "load", "object": f"/{policy}.o", "set": {}}]
        work += plays_of(workloads_of(policy), nr_cpus, deterministic)
    settle_ns = SETTLE_NS_DETERMINISTIC if deterministic else 0
    job = {"work": work, "settle_ns": settle_ns, "time_limit_ns": PLAY_LIMIT_NS}
    records, console = booted(kernel, nr_cpus, job, files, deterministic)
    latest = Stint({})
    found = {OWN: latest}
    for record in records:
        match record["record"]:
            case "attached":
                latest = found[record["policy"]] = Stint(record)
            case "played":
                latest.plays.append((record["played"], record["schedule"]))
            case "ejected" | "detached":
                latest.end = record
            case "refused" | "error":
                pytest.fail(f"{record}\n{console}")
    return found


# ---- shares by nice value -----------------------------------------------------------------------


def kernel_weight(nice):
    return weight_of(nice)


def ticks_of_2_4(nice):
    """Ticks of 10 ms that an epoch grants. Source: Linux 2.4 kernel/sched.c, NICE_TO_TICKS."""
    return ((20 - nice) >> 2) + 1


def slice_of_2_6_0(nice):
    """Time slice in ms. Source: Linux 2.6.0 kernel/sched.c, BASE_TIMESLICE."""
    return 10 + 190 * (19 - nice) // 39


def evenly(_nice):
    return 1


def proportional(weight):
    """Shares of one CPU that hogs of NICE_VALUES get by their weights."""
    total = sum(map(weight, NICE_VALUES))
    return {nice: weight(nice) / total for nice in NICE_VALUES}


def by_deadline(nr_cpus, slices=20_000, slice_ms=8, ms_a_level=12):
    """Shares that bfs 302 should give: the earliest deadline gets the next CPU that is free.

    A deadline is the time when a slice ended and `ms_a_level` for each level of nice from -21 on.
    Slices of 6 ms end at ticks, which these kernels have every 4 ms. Source: BFS 0.302.
    """
    offset_ms = {nice: (nice + 21) * ms_a_level for nice in NICE_VALUES}
    queue = [
        (offset_ms[nice], number, nice)
        for number, nice in enumerate(n for n in NICE_VALUES for _ in range(nr_cpus))
    ]
    heapq.heapify(queue)
    numbers = itertools.count(len(queue))
    runs = dict.fromkeys(NICE_VALUES, 0)
    for at_slice in range(slices):
        running = [heapq.heappop(queue) for _ in range(nr_cpus)]
        for _, _, nice in running:
            runs[nice] += 1
            end_ms = (at_slice + 1) * slice_ms
            heapq.heappush(queue, (end_ms + offset_ms[nice], next(numbers), nice))
    return {nice: count / slices / nr_cpus for nice, count in runs.items()}


# What a task's share of a CPU should be; fifo has no such law.
LAWS = {
    "round_robin": lambda _cpus: proportional(evenly),
    "linux_2_4": lambda _cpus: proportional(ticks_of_2_4),
    "o1": lambda _cpus: proportional(slice_of_2_6_0),
    "cfs_2007": lambda _cpus: proportional(kernel_weight),
    "rfs": lambda _cpus: proportional(kernel_weight),
    "cfs": lambda _cpus: proportional(kernel_weight),
    "cfs_gavl": lambda _cpus: proportional(kernel_weight),
    "timering": lambda _cpus: proportional(kernel_weight),
    "bfs": by_deadline,
    "eevdf": lambda _cpus: proportional(kernel_weight),
    OWN: lambda _cpus: proportional(kernel_weight),
}


def shares(play, nr_cpus, from_ns=NICE_FROM_NS):
    """Share of a CPU that each task had from `from_ns` on, with its nice value."""
    played, schedule = play
    run_ns = dict.fromkeys((task["number"] + 1 for task in played["tasks"]), 0)
    for on_ns, off_ns, _, number in schedule["timeline"]:
        run_ns[number] += max(off_ns - max(on_ns, from_ns), 0)
    total_ns = sum(run_ns.values())
    nice = {task["number"] + 1: task["nice"] for task in played["tasks"]}
    return [(nice[number], ns / total_ns * nr_cpus) for number, ns in run_ns.items()]


def largest_error_points(found, law):
    """Of all tasks, the largest difference from the law, in percentage points of a CPU."""
    return max(abs(share - law[nice]) for nice, share in found) * 100


def test_laws_give_all_cpu_time_and_more_to_lower_nice_values():
    for policy, law in LAWS.items():
        for nr_cpus in CPUS:
            shares_of = law(nr_cpus)
            assert sum(shares_of.values()) == pytest.approx(1), policy
            in_order = [shares_of[nice] for nice in NICE_VALUES]
            assert in_order == sorted(in_order, reverse=True), policy


# ---- the kernels --------------------------------------------------------------------------------


def keeps_sums(nr_cpus, policy):
    return nr_cpus > 1 and policy in KEEPS_SUMS


def loops_of(nr_cpus, policy):
    """So many messages that CPUs pull tasks from each other some hundred times."""
    return 30 if keeps_sums(nr_cpus, policy) else 10


def nice_of(nr_cpus, policy):
    return nice_shares(nr_cpus, "2s" if keeps_sums(nr_cpus, policy) else "500ms")


@functools.cache
def boot_of_all(kernel, nr_cpus):
    def workloads_of(policy):
        return [
            ("hackbench", {"groups": "1", "loops": str(loops_of(nr_cpus, policy))}),
            ("counter", {"n": "4", "work": "50ms"}),
            ("lat_ctx", {"rounds": "300"}),
            nice_of(nr_cpus, policy),
        ]

    deterministic = (kernel, nr_cpus) != BOOTS[-1]
    return stints(needed(kernel), nr_cpus, [*POLICIES, RENAMED], workloads_of, deterministic)


def wrong_times(nice, nr_cpus, policy):
    """What of the clock's time says that CPU time is lost, or that a task is forgotten."""
    # Hogs never sleep: a CPU that idles beside them is lost. Waking up and moving take a little.
    idle_ns, elapsed_ns = nice[1]["idle_while_waiting_ns"], nice[0]["elapsed_ns"]
    if idle_ns >= 0.1 * nr_cpus * elapsed_ns:
        yield f"idle for {idle_ns} of {elapsed_ns} ns on {nr_cpus} CPUs"
    if keeps_sums(nr_cpus, policy):
        # Balancing takes its time: of the shares in one second the smallest were half of their law.
        # Wrong sums leave a hog without CPU time for ever.
        law = LAWS[policy](nr_cpus)
        found = shares(nice, nr_cpus, from_ns=1_000_000_000)
        if not all(share > law[value] / 4 for value, share in found if value <= 0):
            yield f"shares by nice value: {found}"


def one_worker(*boot):
    """What a boot has to tell is asked by one of pytest's workers, which boots once."""
    return pytest.mark.xdist_group(" ".join(map(str, boot)))


@pytest.mark.parametrize(
    ("kernel", "nr_cpus", "policy"),
    [
        pytest.param(*boot, policy, marks=one_worker(*boot))
        for boot in BOOTS
        for policy in (*POLICIES, RENAMED)
    ],
)
def test_a_policy_schedules_every_workload_to_its_end(kernel, nr_cpus, policy):
    stint = boot_of_all(kernel, nr_cpus)[policy]
    assert stint.end["record"] == "detached", stint.end
    assert stint.end["kind"] == REQUESTED, stint.end
    hackbench, counter, lat_ctx, nice = stint.plays
    for played, schedule in stint.plays:
        assert played["status"] == "completed"
        assert schedule["lost"] == 0
    assert hackbench[0]["messages"] == 400 * loops_of(nr_cpus, policy)
    assert min(task["run_ns"] for task in counter[0]["tasks"][1:]) >= 50_000_000
    assert lat_ctx[0]["messages"] == 2 * 300
    # A stall is charged to whoever runs there: one of this machine, whose tenth of a play makes its
    # clock wrong, or, where instructions are counted, of the second CPU, which QEMU leaves without
    # an instruction, and so without a tick, for up to half a second (spare_cpu.rs). Wrong sums
    # would come again, in another play.
    wrong = list(wrong_times(nice, nr_cpus, policy))
    if wrong:
        name, parameters = nice_of(nr_cpus, policy)
        longer = (name, parameters | {"length": "3s"})
        again = stints(needed(kernel), nr_cpus, [policy], lambda _policy: [longer], True)
        [nice] = again[policy].plays
        print(f"at first: {wrong}")
        wrong = list(wrong_times(nice, nr_cpus, policy))
    assert not wrong


def verified_instructions(attached):
    """What the kernel's verifier went through in all programs of a policy."""
    return sum(program["verified_instructions"] for program in attached["programs"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("kernel", "nr_cpus"),
    [
        pytest.param(*boot, marks=one_worker(*boot))
        for boot in {kernel: (kernel, cpus) for kernel, cpus in reversed(BOOTS)}.values()
    ],
)
def test_a_kernel_accepts_a_policy_after_few_steps(kernel, nr_cpus, policy):
    found = verified_instructions(boot_of_all(kernel, nr_cpus)[policy].attached)
    assert 0 < found < VERIFIED_INSTRUCTIONS_MAX


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_accepts_each_set_of_tunables(kernel):
    """A tunable may open code that the values in the C file close, which no verifier has seen."""
    sources = [ROOT / "policies" / f"{name}.bpf.c" for name in POLICIES]
    files = {f"/{source.name}.o": object_of(source).read_bytes() for source in sources}
    work = [
        {
            "kind": "load",
            "object": f"/{source.name}.o",
            "set": {name: str(value) for name, value in one["tunables"].items()},
        }
        for source in sources
        for one in catalogue.load_policy(source).sets
    ]
    job = {"work": work, "settle_ns": 0, "time_limit_ns": PLAY_LIMIT_NS}
    records, console = booted(needed(kernel), 2, job, files, False)
    refused = [record for record in records if record["record"] in ("refused", "error")]
    assert not refused, f"{refused}\n{console}"
    assert sum(record["record"] == "attached" for record in records) == len(work) > 20


# What is wrong: the stage at which it ends, or None where it is ejected after it was enabled;
# words of the reason, and of the hint.
MISTAKES = {
    "endless": ("load", "nfinite loop", "bpf_for"),
    "null_pointer": ("load", "null_pointer.bpf.c:20", "NULL"),
    "init_fails": ("attach", "init() failed (-28)", "No space left"),
    "bad_queue": (None, "non-existent DSQ", "scx_bpf_create_dsq"),
    "without_record": (None, "non-existent DSQ", "scx_bpf_create_dsq"),
    "gives_up": (None, "was one too many after 100", ""),
    "stalls": (None, "failed to run for", "enqueue"),
}


@functools.cache
def boot_of_mistakes(kernel):
    """What `schedlab-guest load` told of each, one after the other in one boot."""
    kernel = needed(kernel)
    files, work = {}, []
    for name in MISTAKES:
        path = f"/{name}.o"
        files[path] = object_of(OF_TESTS / f"{name}.bpf.c").read_bytes()
        work.append({"kind": "command", "argv": ["/init", "load", path, "--every", "0"]})
    job = {"work": work, "time_limit_ns": PLAY_LIMIT_NS}
    records, console = booted(kernel, 2, job, files)
    told = [record for record in records if record["record"] == "finished"]
    assert len(told) == len(MISTAKES), console
    return dict(zip(MISTAKES, told, strict=True))


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize(
    "kernel", [pytest.param(kernel, marks=one_worker(kernel, "mistakes")) for kernel in KERNELS]
)
def test_a_mistake_ends_with_the_kernels_reason_and_the_machine_goes_on(kernel, name):
    finished = boot_of_mistakes(kernel)[name]
    stage, words, hint = MISTAKES[name]
    assert finished["status"] == 1, finished
    records = result.parse(finished["output"].splitlines())
    [end] = [record for record in records if record["record"] in ("refused", "ejected")]
    # However soon a policy is ejected, it is known by its name.
    assert {record["policy"] for record in records if record["record"] == "attached"} <= {name}
    said = ": ".join(filter(None, (end["reason"], end.get("message"))))
    print(f"{said}\nhint: {end['hint']}")
    assert (end["record"], end.get("stage")) == ("refused" if stage else "ejected", stage)
    assert words in said
    assert hint in end["hint"]


# ---- the page -----------------------------------------------------------------------------------

# A virtual machine's clock is this machine's where it does not count instructions: the middle one
# of so many plays is shown.
REPEATS = 3


def measured(kernel, nr_cpus, policies):
    """The cells of a column, by table and policy."""
    deterministic = nr_cpus == 1
    repeated = [HACKBENCH, COUNTER, LAT_CTX] * (1 if deterministic else REPEATS)
    workloads = [*repeated, nice_shares(nr_cpus, "6s")]
    found = stints(kernel, nr_cpus, policies, lambda _: workloads, deterministic)
    cells = {}
    for policy, stint in found.items():
        if policy not in policies:
            continue
        assert len(stint.plays) == len(workloads), (policy, stint.end)
        *plays, nice = stint.plays
        makespan_ms = [played["makespan_ns"] / 1e6 for played, _ in plays]
        hackbench_ms, counter_ms, lat_ctx_ms = (
            statistics.median(makespan_ms[of::3]) for of in range(3)
        )
        moves = statistics.median(
            sum(task["migrations"] for task in schedule["tasks"]) for _, schedule in plays[::3]
        )
        cells["hackbench", policy] = f"{hackbench_ms:.0f}; {moves:.0f}"
        cells["counter", policy] = f"{counter_ms:.0f}"
        # Two switches a round.
        cells["lat_ctx", policy] = f"{lat_ctx_ms / 2:.1f}"
        idle_percent = 100 * nice[1]["idle_while_waiting_ns"] / nice[0]["elapsed_ns"] / nr_cpus
        law = LAWS.get(policy)
        error = f"{largest_error_points(shares(nice, nr_cpus), law(nr_cpus)):.1f}" if law else "-"
        cells["nice_shares", policy] = f"{error}; {idle_percent:.1f}"
        print(kernel, nr_cpus, policy, shares(nice, nr_cpus))
    return cells


def verified(kernel):
    """The cells of a column of the verifier's table: instructions; ms by the clock that counts."""
    found = stints(kernel, 1, POLICIES, lambda _: [], deterministic=True)
    return {
        ("verifier", policy): f"{verified_instructions(found[policy].attached):,};"
        f" {found[policy].attached['load_ns'] / 1e6:,.0f}"
        for policy in POLICIES
    }


def table(columns, name, old):
    """The rows of a table, a policy each; what was not measured is as in the `old` text."""
    yield "| policy | " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for policy in (*POLICIES, OWN):
        label = policy if policy == OWN else f"`{policy}`"
        cells = [column.get((name, policy)) for column in columns.values()]
        if all(cells):
            yield f"| {label} | " + " | ".join(cells) + " |"
        else:
            yield from (row for row in old.splitlines() if row.startswith(f"| {label} |"))


def write_tables(names, columns):
    """Puts what was measured into the page."""
    text = PAGE.read_text()
    for name in names:
        begin, end = f"<!-- {name} -->\n\n", "\n<!-- end -->"
        [old] = re.findall(re.escape(begin) + "(.*?)" + re.escape(end), text, flags=re.S)
        rows = "\n".join(table(columns, name, old)) + "\n"
        text = text.replace(begin + old + end, begin + rows + end)
    PAGE.write_text(text)


if WRITE:

    def test_the_page_of_plays_is_written():
        names = [needed(kernel) for kernel in KERNELS]
        columns = {
            f"{kernel}, {cpus}": measured(kernel, cpus, ASKED or (OWN, *POLICIES))
            for kernel in names
            for cpus in CPUS
        }
        write_tables(("hackbench", "counter", "lat_ctx", "nice_shares"), columns)

    def test_the_verifiers_table_is_written():
        write_tables(("verifier",), {kernel: verified(kernel) for kernel in map(needed, KERNELS)})
