"""Goal: `schedlab bench --on vm --until-ci` boots until the means are known, and no kernel alone.

Method: the real verb with played guests whose values are told beforehand; killed between boots.
"""

import json
import re
from collections import Counter

import played_guests
import pytest
from played_guests import Guests, Played, counted, cut, seconds_of
from schedlab.bench import request
from schedlab.statistics import stopping

guests, bench, kept = played_guests.guests, played_guests.bench, played_guests.kept

UNTIL = ("--kernel", "a", "--kernel", "b", "--repeat", "2", "--until-ci", "1%")


def wander(guests, is_narrow):
    """Gives every boot a value of its own: `is_narrow` says of a kernel, a case and a number of a
    boot whether it is near to what it was."""
    numbers = Counter()

    def records(guest, job, place):
        # Of a boot that is cut off nothing is kept, and another one makes up for it.
        numbers[guest.name] += place not in guests.fates
        number = numbers[guest.name]
        for record in Guests.records(guests, guest, job, place):
            if record["record"] == "finished":
                case = job["work"][record["index"]]["argv"][3]
                far = 1e-4 if is_narrow(guest.name, case, number) else 0.5
                value = seconds_of(guest) * (1 + far * (number % 2))
                record["output"] = json.dumps({"figure": {"value": value}})
            yield record

    guests.records = records


def test_boots_end_at_the_look_at_which_all_are_narrow_enough(guests, bench, kept):
    wander(guests, lambda kernel, case, number: True)
    done = bench(*UNTIL)
    assert done.exit_code == 0, done.output
    assert Counter(guests.started) == {"a": 10, "b": 10}
    for case in ("1", "2"):
        for kernel in ("a", "b"):
            assert re.search(
                rf"^pipe n={case}, {kernel}: ±0\.\d\d % after 10 boots$", done.stderr, re.MULTILINE
            )
    again = bench(*UNTIL)
    assert "0 repetitions made, 80 were in" in again.stderr
    assert again.exit_code == 0
    assert len(guests.started) == 20


def test_a_case_goes_on_in_all_guests_until_the_last_is_known(guests, bench, kept):
    # Far apart in one of four places, and only at first: the widest interval decides.
    wander(guests, lambda kernel, case, number: (kernel, case) != ("b", "2") or number > 4)
    done = bench(*UNTIL, "--until-ci", "15%")
    assert done.exit_code == 0, done.output
    rounds = Counter(guests.started)
    assert rounds["a"] == rounds["b"] > 10
    rows = kept(
        "SELECT json_extract(condition, '$.kernel'), case_name, count(DISTINCT series)"
        " FROM repetitions JOIN campaigns ON campaigns.id = campaign GROUP BY 1, 2"
    )
    # The case that is known stops in both kernels, the other goes on in both.
    assert rows == [
        (kernel, case, nr)
        for kernel in ("6.1.0 (VM)", "6.18.0 (VM)")
        for case, nr in (("pipe n=1", 10), ("pipe n=2", rounds["a"]))
    ]
    # And it stopped where the rule for repetitions does, with a boot as one.
    medians = [0.5 * (1 + (0.5 if n <= 4 else 1e-4) * (n % 2)) for n in range(1, 31)]
    looks = stopping.looks(request.BOOTS_UNTIL)
    widths = [stopping.width(medians[:n], 0.15, request.BOOTS_UNTIL) for n in looks]
    assert rounds["a"] == next(one.n for one in widths if one.is_narrow)


def test_a_width_that_boots_do_not_reach_is_said_with_the_boots_it_takes(guests, bench):
    wander(guests, lambda kernel, case, number: False)
    done = bench(*UNTIL, "--boots", "12")
    assert done.exit_code == 0, done.output
    assert Counter(guests.started) == {"a": 12, "b": 12}
    found = re.search(
        r"pipe n=1, a: ±.* after 12 boots, not ±1\.0 %: .* ([\d,]+) boots", done.stderr
    )
    assert int(found[1].replace(",", "")) > 100
    # More of them go on where these ended.
    assert bench(*UNTIL, "--boots", "14").exit_code == 0
    assert Counter(guests.started) == {"a": 14, "b": 14}


@pytest.mark.parametrize("nr_boots", [9, 19, 21, 29])
def test_killed_between_boots_it_comes_to_the_same_set(guests, bench, kept, nr_boots):
    # b is known after ten boots, a after fifteen: in the round of the look one of them is ahead.
    wander(guests, lambda kernel, case, number: kernel == "b" or number > 4)
    guests.fates[nr_boots] = lambda boot: Played([KeyboardInterrupt])
    options = (*UNTIL, "--until-ci", "15%")
    bench(*options)
    assert len(guests.started) == nr_boots + 1
    # The boot in which it was killed measured nothing.
    told = bench(*options)
    assert told.exit_code == 0, told.output
    made = counted(kept)
    assert made == {(k, n): 4 for k in ("6.1.0", "6.18.0") for n in range(1, 16)}


def test_a_guest_that_is_lost_does_not_keep_the_others_going(guests, bench, kept):
    wander(guests, lambda kernel, case, number: True)
    start = guests.start

    def panics_in_a(guest, job, limits):
        played = start(guest, job, limits)
        return cut(played, 1, "panicked") if guest.name == "a" else played

    guests.start = panics_in_a
    done = bench(*UNTIL)
    assert done.exit_code == 1
    assert Counter(guests.started) == {"a": 2, "b": 10}
    assert "note: some boots are not complete; the same command goes on" in done.stderr
    guests.start = start
    again = bench(*UNTIL)
    assert again.exit_code == 0, again.output
    assert Counter(guests.started) == {"a": 12, "b": 10}
