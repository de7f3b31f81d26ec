"""Goal: what a kernel would refuse is told by `check`, though no simulation shows it.

Method: a policy with an access to nothing that is never made, asked of a kernel in a virtual
machine; answers of other kinds made up.
"""

import types
from pathlib import Path

import pytest
from schedlab import catalogue
from schedlab.errors import SchedlabError
from schedlab.experiment import conformance, conformance_table, junit, verifier
from schedlab.experiment.sweep import Outcome
from schedlab.kernel.result import NOT_ENABLED

ROOT = Path(__file__).resolve().parents[2]
QUEUED = "	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);\n"
NEVER = "	if (p->pid == 123456789)\n		*(volatile int *)0 = 1;\n"


@pytest.fixture
def told():
    return []


@pytest.fixture
def refused(tmp_path):
    """A copy of round_robin that no simulation finds at fault."""
    text = (ROOT / "policies" / "round_robin.bpf.c").read_text()
    path = tmp_path / "refused.bpf.c"
    path.write_text(text.replace(QUEUED, NEVER + QUEUED))
    return str(path)


@pytest.mark.qemu
def test_a_kernel_is_asked_once_and_its_refusal_is_a_violation(refused, told, monkeypatch):
    asked = verifier.ask(refused, {}, told.append)
    assert asked.verdict == "violated"
    assert "the verifier refused round_robin_enqueue" in asked.what
    assert "refused.bpf.c" in asked.log
    monkeypatch.setattr(verifier.vm, "measure_cell", lambda cell: pytest.fail("it boots again"))
    assert verifier.ask(refused, {}, told.append) == asked
    findings, violations = conformance.check(refused, only=["small_turns", "verifier"], orders=50)
    assert [violation["check"] for violation in violations] == ["verifier"]
    lines = "\n".join(conformance_table.violation_lines(findings, violations))
    assert "not a pointer" in lines
    assert f"again: schedlab check {refused} --only verifier" in lines
    assert "1 violated" in conformance_table.summary_text(findings)
    text = junit.junit_text(findings, violations)
    assert 'failures="1"' in text and "the verifier refused" in text


@pytest.mark.qemu
def test_a_sound_policy_is_taken(told):
    asked = verifier.ask("round_robin", {"slice_ns": 5_000_000}, told.append)
    assert (asked.verdict, asked.what) == ("holds", "")
    assert asked.kernel.startswith("Linux ")


def outcome(**error):
    fields = {"kind": "", "message": "it says so", "hint": "do this", "evidence": ""}
    return Outcome({"status": "failed", "error": fields | error})


@pytest.mark.parametrize(
    ("came", "verdict", "what"),
    [
        (Outcome({"status": "completed", "error": None}), "holds", ""),
        (outcome(kind="ejected"), "holds", ""),
        (outcome(kind="time_limit"), "holds", ""),
        (outcome(kind="refused"), "violated", "it says so"),
        (outcome(kind="refused", message=f"{NOT_ENABLED}: ops.init() failed"), "holds", ""),
        (outcome(kind="boot_timed_out"), "not_asked", "it says so"),
        (Outcome(None, fault="no QEMU", hint="install it"), "not_asked", "no QEMU"),
    ],
)
def test_only_a_refusal_of_the_kernel_is_a_violation(came, verdict, what):
    asked = verifier._answer("Linux 9", came)
    assert (asked.verdict, asked.what) == (verdict, what)


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No kernel is at hand."""
    monkeypatch.setattr(catalogue, "cache_directory", lambda: tmp_path)

    def find(*_):
        raise SchedlabError("there is no kernel", "`schedlab kernels fetch` gets some")

    monkeypatch.setattr(verifier, "expand", find)


def test_where_there_is_no_kernel_that_is_said_and_promises_nothing(alone, told):
    asked = verifier.ask("fifo", {}, told.append)
    assert (asked.verdict, asked.what, told) == ("not_asked", "there is no kernel", [])
    policy = types.SimpleNamespace(label="fifo", given="fifo")
    findings = conformance.Findings(policy)
    findings.verifier = asked
    assert conformance_table.summary_text(findings) == (
        "fifo: nothing violated that a simulation shows, and no kernel was asked"
    )
    notes = list(conformance_table.left_out_texts(findings))
    assert "there is no kernel" in notes[0] and "kernels fetch" in notes[1]
    assert 'skipped message="there is no kernel"' in junit.junit_text(findings, [])
    # Asked or not, it is one test to whoever reads the file.
    names = [junit.junit_text(findings, []).count('name="verifier: a kernel takes its object"')]
    findings.verifier = verifier.Asked("holds")
    names.append(junit.junit_text(findings, []).count('name="verifier: a kernel takes its object"'))
    assert names == [1, 1]


def test_a_kept_answer_that_is_damaged_is_asked_again(alone, told, tmp_path):
    path = tmp_path / "verifier" / "x.json"
    path.parent.mkdir()
    for text in ("", "{", "[1]", '{"colour": 1}'):
        path.write_text(text)
        assert verifier._kept(path) is None
