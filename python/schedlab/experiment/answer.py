"""What came of an experiment, once, for all who show it: the terminal, a page, a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.experiment.definition import told_sets
from schedlab.experiment.metrics import Metrics, metrics_of
from schedlab.experiment.published import Beside, published_beside
from schedlab.experiment.stored import title_of
from schedlab.experiment.study import Study, rule_of, study_of
from schedlab.experiment.switch_costs import Knee, SwitchCost, knees, switch_costs
from schedlab.experiment.verdicts import Judged, judge
from schedlab.store.runs import RunRecord


@dataclass(frozen=True, slots=True)
class Answer:
    """An experiment's definition and command, and what its runs say beside what others said."""

    definition: Mapping
    command: str
    study: Study
    metrics: Metrics
    switch_costs: Sequence[SwitchCost]
    knees: Sequence[Knee]
    published: Mapping[str, Beside]
    judged: Sequence[Judged]

    @property
    def title(self) -> str:
        """What the experiment calls itself, or else its policies and its workload."""
        return title_of(self.definition)

    @property
    def description(self) -> str:
        """What the experiment says of itself, and which sets its policies are."""
        sets = told_sets(self.definition)
        parts = (self.definition.get("description", ""), sets and f"Here {sets}.")
        return " ".join(filter(None, parts))


def answer_of(definition: Mapping, command: str, records: Sequence[RunRecord]) -> Answer:
    """The answer that runs give; ValueError if there is none. `definition` is that of an
    `Experiment`, or what a store has of it. Who types `command` makes the same runs again."""
    study = study_of(records, rule_of(definition))
    published, judged = published_beside(definition, study), judge(definition, study)
    costs = switch_costs(study), knees(study)
    return Answer(definition, command, study, metrics_of(study), *costs, published, judged)
