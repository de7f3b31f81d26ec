"""Goal: the environment is what the kernel tells, None where it tells nothing; what disturbs shows.

Method: trees of files that are written here in the place of /proc and /sys.
"""

import gzip
import os

import pytest
from schedlab.bench import environment
from schedlab.bench.environment import Reading, disturbance

SECOND_NS = 1_000_000_000


def tree(root, files):
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def facts(**changes):
    """An idle machine without faults."""
    plain = {
        "governor": "performance",
        "load": [0.0, 0.0, 0.0],
        "pressure": {"cpu": 0.0},
        "throttled": 0,
        "turbo": False,
        "mains": True,
        "machine": {"nr_cpus": 2, "virtual": ""},
    }
    return plain | changes


def test_what_is_not_told_is_none(tmp_path):
    found = environment.capture(root=tmp_path)
    for name in ("governor", "turbo", "mains", "load", "pressure", "temperature_celsius",
                 "throttled"):  # fmt: skip
        assert found[name] is None, name
    assert found["kernel"]["preemption"] is None
    assert found["kernel"]["mitigations"] is None
    assert found["machine"]["memory_kib"] is None
    assert found["machine"]["virtual"] is None
    assert found["kernel"]["hz_source"] != "configuration"
    assert found["kernel"]["hz"] > 0


def test_what_is_told_is_read(tmp_path):
    cpu = "sys/devices/system/cpu"
    root = tree(
        tmp_path,
        {
            "proc/config.gz": gzip.compress(b"CONFIG_HZ=300\nCONFIG_PREEMPT=y\n"),
            "proc/meminfo": "MemTotal:  2048 kB\n",
            "proc/cpuinfo": "model name : A CPU\nflags : fpu hypervisor\n",
            "proc/loadavg": "1.50 1.00 0.50 1/100 7\n",
            "proc/pressure/cpu": "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/intel_pstate/no_turbo": "0\n",
            f"{cpu}/cpu0/thermal_throttle/core_throttle_count": "3\n",
            "sys/class/thermal/thermal_zone0/temp": "45500\n",
            "sys/class/power_supply/AC/type": "Mains\n",
            "sys/class/power_supply/AC/online": "0\n",
            "sys/class/power_supply/BAT0/type": "Battery\n",
            "sys/class/power_supply/mouse/online": "1\n",
            "sys/kernel/sched_ext/state": "enabled\n",
            "sys/kernel/sched_ext/root/ops": "bfs\n",
            "sys/kernel/debug/sched/preempt": "none (voluntary) full\n",
        },
    )
    found = environment.capture(root=root)
    assert found["kernel"]["hz"] == 300
    assert found["kernel"]["hz_source"] == "configuration"
    assert found["kernel"]["preemption"] == "voluntary"  # What is in force, not what was built.
    assert found["machine"]["memory_kib"] == 2048
    assert found["machine"]["virtual"] == "a hypervisor"
    assert found["load"] == [1.5, 1.0, 0.5]
    assert found["pressure"] == {"cpu": 12.5}
    assert found["governor"] == "performance, powersave"
    assert found["turbo"] is True
    assert found["mains"] is False
    assert found["throttled"] == 3
    assert found["temperature_celsius"] == 45.5
    assert found["scheduler"] == "bfs"


def test_a_machine_kept_on_some_of_its_cpus_is_another_one(tmp_path, monkeypatch):
    root = tree(tmp_path, {"etc/machine-id": "one\n"})
    ids = []
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for usable in ({0, 1, 2}, {0}, {1}, {0, 1, 2}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, now=usable: now)
        ids.append(environment.condition(environment.capture(root=root))["machine"])
    assert ids[0] == ids[3]
    assert len(set(ids)) == 3


def test_a_scheduler_that_was_detached_is_not_in_force(tmp_path):
    root = tree(tmp_path, {"sys/kernel/sched_ext/state": "disabled\n"})
    assert environment.scheduler(root) == environment.KERNEL_OWN


def test_a_preemption_model_that_was_asked_for_wins_only_where_it_can(tmp_path):
    root = tree(tmp_path, {"proc/cmdline": "quiet preempt=full\n"})
    dynamic = "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\n"
    assert environment.preemption(dynamic, root) == "full"
    assert environment.preemption("CONFIG_PREEMPT_NONE=y\n", root) == "none"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"governor": "powersave"}, "governor is powersave"),
        ({"mains": False}, "runs on its battery"),
        ({"load": [3.0, 0, 0]}, "busy: load average 3.00"),
        ({"pressure": {"cpu": 40.0}}, "busy: tasks waited"),
        ({"throttled": 2}, "heat slowed the CPU down 2 times"),
        ({"turbo": True}, "turbo is on"),
        ({"machine": {"nr_cpus": 2, "virtual": "KVM"}}, "virtual machine"),
    ],
)
def test_what_makes_results_worse_is_told_with_what_to_do(changes, said):
    assert environment.warnings(facts()) == []
    [warned] = environment.warnings(facts(**changes))
    assert said in warned.what
    assert warned.to_do


def reading(at_s, busy_s, steal_s=0.0, throttled=0):
    ns = (round(one * SECOND_NS) for one in (at_s, busy_s, steal_s))
    return Reading(*ns, throttled, {})


def test_cpu_time_of_others_is_what_is_neither_ours_nor_idle():
    found = disturbance(reading(0, 10), reading(1, 11.5), SECOND_NS, nr_cpus=2)
    assert found["foreign_ns"] == SECOND_NS // 2
    assert found["noisy"] == ["others used 25 % of the CPUs"]
    quiet = disturbance(reading(0, 10), reading(1, 11.01), SECOND_NS, nr_cpus=2)
    assert quiet["noisy"] == []


def test_time_that_a_hypervisor_took_and_heat_are_noise():
    found = disturbance(reading(0, 0), reading(1, 0, 0.1, 1), 0, nr_cpus=1)
    assert found["noisy"] == [
        "the hypervisor took 10 % of the CPUs",
        "the CPU was slowed down by heat",
    ]


def test_what_cannot_be_known_is_no_noise():
    unknown = Reading(0, None, None, None, {})
    found = disturbance(unknown, unknown, 0, nr_cpus=1)
    assert found == {"foreign_ns": None, "steal_ns": None, "throttled": None, "noisy": []}
