"""What `schedlab check` found, as a file that continuous integration reads: JUnit's XML.

A test case is a property that was asked in a scenario, a small scenario in all its orders, or all
random scenarios; its name does not depend on how many. What a policy does not promise was not
asked, and is no test.
"""

from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from schedlab.experiment.conformance import PROPERTIES, VERIFIER, Findings
from schedlab.shown import shown

# What the verifier is asked. Asked or not, it is one test.
TAKEN = "a kernel takes its object"


def junit_text(findings: Findings, violations: Sequence[Mapping]) -> str:
    """The document. A violation is a failure with the commands that show it again, and what was not
    tried is skipped."""
    told: dict[str, list[Mapping]] = {}
    for violation in violations:
        told.setdefault(violation["check"], []).append(violation)
    cases = [_case(findings, *case, told) for case in _asked(findings)]
    for name, why in _left_out(findings):
        case = _element("testcase", classname=findings.policy.label, name=name)
        case.append(_element("skipped", message=why))
        cases.append(case)
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "errors": 0,
    }
    suite = _element("testsuite", name=f"schedlab check {findings.policy.given}", **counts)
    suite.extend(cases)
    whole = _element("testsuites", **counts)
    whole.append(suite)
    ElementTree.indent(whole)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(whole, "unicode")}\n'


def _asked(findings: Findings) -> Iterator[tuple[str, str, bool]]:
    """Of each test case the scenario, what was asked there, and whether it is violated."""
    for row in findings.rows:
        if row["verdict"] != "not_promised":
            yield row["check"], PROPERTIES[row["property"]][0], row["verdict"] == "violated"
    for scope in findings.small:
        yield scope["name"], "orders of events", bool(scope["failed"])
    if findings.random["tried"]:
        yield "random", "random scenarios", bool(findings.random["failed"])
    if (asked := findings.verifier) and asked.verdict != "not_asked":
        yield VERIFIER, TAKEN, asked.verdict == "violated"


def _left_out(findings: Findings) -> Iterator[tuple[str, str]]:
    """What was not tried, and why."""
    for trial in findings.untried:
        yield trial.say(), "left out: too many runs have no end"
    if findings.verifier and findings.verifier.verdict == "not_asked":
        yield f"{VERIFIER}: {TAKEN}", findings.verifier.what


def _case(
    findings: Findings,
    scenario: str,
    what: str,
    is_violated: bool,
    told: Mapping[str, Sequence[Mapping]],
) -> ElementTree.Element:
    case = _element("testcase", classname=findings.policy.label, name=f"{scenario}: {what}")
    if is_violated:
        # A row whose scenario ended early is told by the row that says so.
        of_scenario = told.get(scenario, ())
        message = of_scenario[0]["what"] if of_scenario else what
        failure = _element("failure", type="violated", message=message)
        lines = [
            f"{name}: {violation[name]}"
            for violation in of_scenario
            for name in ("what", "again", "replay")
            if violation[name]
        ]
        failure.text = _fit("\n".join(lines))
        case.append(failure)
    return case


def _element(tag: str, **attributes: object) -> ElementTree.Element:
    return ElementTree.Element(tag, {name: _fit(str(of)) for name, of in attributes.items()})


def _fit(text: str) -> str:
    """A text without what is no character of XML."""
    return shown(text).translate({0xFFFE: "\ufffd", 0xFFFF: "\ufffd"})
