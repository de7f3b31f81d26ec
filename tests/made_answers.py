"""Answers of experiments that nobody made: records, and a definition that only has a title."""

from dataclasses import replace

from schedlab.experiment import page
from schedlab.experiment.answer import Answer, answer_of

TITLE = "hackbench on the OSDL machines"


def made_answer(records, command="schedlab compare", title=TITLE, **changes) -> Answer:
    """The answer that records give, with some of its fields changed."""
    answer = answer_of({"title": title, "policies": []}, command, list(records))
    return replace(answer, **changes)


def write_page(path, records, command="schedlab compare", timelines=None, **changes) -> None:
    """Writes the page of `made_answer`."""
    page.write(path, made_answer(records, command, **changes), timelines)
