"""Goal: a heat that others disturbed is raced once more, the quieter one stays, and it is told.

Method: in the place of the native race, heats that were disturbed as the test says.
"""

import pytest
from made_heats import MACHINE, heat, rounds, row
from schedlab import _native, catalogue
from schedlab.race import plugins
from schedlab.race.answers import standings
from schedlab.race.forms import notes
from schedlab.race.meeting import Meeting
from schedlab.race.plan import HeatSpec
from schedlab.store.heats import Heats
from schedlab.store.runs import Store


def made(disturbed, pace):
    """What the core gives: one structure, some of whose nine figures were disturbed."""
    made_row = row("red_black_tree", rounds(9.0), disturbed=disturbed, paces=[pace] * 9)
    result = dict(heat([made_row]).result)
    return result | {"spec": {**result["spec"], "pace": pace}}


@pytest.fixture
def meet(tmp_path, monkeypatch):
    """Races heats of these sizes; each native race gives the next of `found`, or raises it."""

    def met(found, sizes=(100,)):
        given, spec_paces = iter(found), []

        def race(spec, _limit_s):
            spec_paces.append(spec["pace"])
            next_one = next(given)
            if isinstance(next_one, Exception):
                raise next_one
            return made(*next_one)

        monkeypatch.setattr(plugins, "race", race)
        specs = [HeatSpec("hold", "uniform", n, 1, rounds=9) for n in sizes]
        with Store(tmp_path / "race.db") as store:
            meeting = Meeting(specs, Heats(store), MACHINE, print)
            meeting.race(again=False, quiet=True)
            keys = [one.key(MACHINE.cpu_model, catalogue.core_version()) for one in specs]
            kept = [Heats(store).find(key).result for key in keys]
        assert kept == [heat.result for heat in meeting.heats]
        assert next(given, None) is None
        return meeting, spec_paces

    return met


@pytest.mark.parametrize(
    ("found", "stays"), [((9, 2), 2), ((6, 8), 6), ((6, 6), 6), ((4,), 4), ((0,), 0)]
)
def test_a_heat_that_was_mostly_disturbed_is_raced_once_more(meet, found, stays):
    meeting, paces = meet([(disturbed, 1.5) for disturbed in found])
    [stayed] = meeting.heats
    assert stayed.disturbed_share(1.5) == stays / 9
    assert (meeting.nr_raced, meeting.failed) == (1, [])
    # The pace of a core of one's own is known from the heat before.
    assert paces == [None, 1.5][: len(paces)]


def test_a_heat_that_did_not_know_better_is_raced_once_more(meet):
    # The neighbour of the first was there all the time.
    meeting, paces = meet([(0, 2.6), (0, 1.5), (1, 1.5)], sizes=(7, 8))
    assert [heat.disturbed_share(1.5) for heat in meeting.heats] == [1 / 9, 0]
    assert paces == [None, 2.6, 1.5]


def test_a_heat_that_did_not_know_better_is_told_if_it_stays(meet):
    # The neighbour of the first was there all the time, and came again.
    meeting, _ = meet([(0, 2.6), (0, 1.5), (9, 2.5)], sizes=(7, 8))
    [text] = [text for text in notes(standings(meeting.heats)) if "half of its core" in text]
    assert "in 100 % of the figures of hold, uniform keys, n = 7." in text
    # The second one's own word is true.
    assert [heat.result["rows"][0]["disturbed"] for heat in meeting.heats] == [9, 0]


def test_a_heat_that_cannot_be_raced_once_more_stays_and_is_told(meet):
    error = _native.RaceError("an item is lost")
    meeting, _ = meet([(9, 1.5), error])
    assert [heat.disturbed_share(1.5) for heat in meeting.heats] == [1]
    assert meeting.failed == [(meeting.specs[0], error)]


def test_a_heat_that_stayed_disturbed_is_told():
    def said(*disturbed):
        heats = [
            heat([row("red_black_tree", rounds(9.0), disturbed=of)], n=n)
            for n, of in enumerate(disturbed, 7)
        ]
        return [text for text in notes(standings(heats)) if "half of its core" in text]

    assert said(0, 0) == []
    [text] = said(0, 3)
    assert "in 33 % of the figures of hold, uniform keys, n = 8." in text
    [text] = said(6, 3)
    assert "in 67 % of the figures of hold, uniform keys, n = 7 and 1 more." in text
