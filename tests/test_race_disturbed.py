"""Goal: a heat that others disturbed is raced once more, the quieter one stays, and it is told.

Method: a core that is told how much it was disturbed.
"""

import pytest
from made_heats import heat, rounds, row
from schedlab import race_worker
from schedlab.heats import Heats
from schedlab.race import Asked
from schedlab.race_answers import standings
from schedlab.race_table import notes
from schedlab.race_verb import Meeting
from schedlab.store import Store

ASKED = Asked("hold", "uniform", 100, 1, rounds=9)


def made(disturbed, pace):
    """What the core gives: one structure, some of whose nine figures were disturbed."""
    result = dict(heat([row("red_black_tree", rounds(9.0), disturbed=disturbed)]).result)
    return result | {"spec": {**result["spec"], "pace": pace}}


@pytest.mark.parametrize(("found", "stays"), [((9, 2), 2), ((6, 8), 6), ((4, 0), 4), ((0, 9), 0)])
def test_a_heat_that_was_mostly_disturbed_is_raced_once_more(tmp_path, monkeypatch, found, stays):
    given, paces = iter(found), []

    def race(spec):
        paces.append(spec["pace"])
        return made(next(given), pace=100.0 + len(paces))

    monkeypatch.setattr(race_worker, "race", race)
    with Store(tmp_path / "race.db") as store:
        meeting = Meeting([ASKED], Heats(store), "A Processor", "1", again=False)
        meeting.race(quiet=True)
        kept = Heats(store).find(ASKED.key("A Processor", "1"))
    [stayed] = meeting.heats
    assert stayed.disturbed_share == stays / 9
    assert kept.result == stayed.result
    assert meeting.nr_raced == 1
    # How fast the core can be is known from the heat before.
    assert paces == [None, 101.0][: len(paces)]
    assert (len(paces) == 2) == (found[0] > 4.5)


def test_a_heat_that_stayed_disturbed_is_told():
    def said(*disturbed):
        heats = [
            heat([row("red_black_tree", rounds(9.0), disturbed=of)], n=n)
            for n, of in enumerate(disturbed, 7)
        ]
        return [text for text in notes(standings(heats)) if "half of its core" in text]

    assert said(0, 0) == []
    [text] = said(0, 3)
    assert "in 33% of the figures of hold, uniform keys, n = 8." in text
    [text] = said(6, 3)
    assert "in 67% of the figures of hold, uniform keys, n = 7 and 1 more." in text
