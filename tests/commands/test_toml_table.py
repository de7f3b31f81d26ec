"""Goal: a table of TOML is read strictly, and each way of being wrong names its place and value.

Method: ask tables for what they hold and for what they do not.
"""

import tomllib

import pytest
from schedlab.errors import SchedlabError
from schedlab.values import Table


def table(text):
    return Table(tomllib.loads(text), "mine.toml")


def test_what_is_there_comes_as_it_stands():
    top = table('a = 1\nt = "x"\nlist = [1, 2]\nrange = "1..3"\n[with]\nn = 3\nfast = true\n')
    assert top.number("a", None, 0, 9, whole=True) == 1
    assert top.text("t") == "x"
    assert top.values("list") == (1, 2)
    assert top.values("range") == (1, 2, 3)
    assert top.words("with") == {"n": "3", "fast": "true"}
    top.refuse_others()


def test_what_is_not_there_has_its_default():
    top = table("")
    assert top.number("a", 7, 0, 9) == 7
    assert top.text("t", "") == ""
    assert not top.flag("f")
    assert top.tables("many") == []
    assert top.table("one").given == {}


@pytest.mark.parametrize(
    ("text", "ask", "said"),
    [
        ("", lambda top: top.text("t"), "mine.toml: 't' is missing"),
        ("a = true", lambda top: top.number("a", 1, 0, 9), "mine.toml: a: True is not a number"),
        ("a = 10", lambda top: top.number("a", 1, 0, 9), "a: 10 is not a number from 0 to 9"),
        ("a = nan", lambda top: top.number("a", 1, 0, 9), "a: nan is not a number from 0 to 9"),
        ("[a.b]\nc = 1", lambda top: top.table("a").table("b").text("c"), "mine.toml: a.b.c: 1 is"),
        ("[a]\nb = []", lambda top: top.words("a"), "a.b: [] is not a number, a text or true/fa"),
        ("a = 3", lambda top: top.table("a"), "a: 3 is not a table"),
        ("[[a]]\n[[a]]\nb = 1", lambda top: top.tables("a")[1].text("b"), "mine.toml: a 2: b: 1"),
        ('[[a]]\nname = "x"', lambda top: top.tables("a")[0].text("b"), "a 'x': 'b' is missing"),
        ("a = [1, 2, 1.0]", lambda top: top.values("a"), "a: [1, 2, 1.0] holds a value twice"),
        ("b = 1", lambda top: (top.text("a", ""), top.refuse_others()), "key 'b' in mine.toml"),
        ("[a]\nb = 1", lambda top: top.table("a").refuse_others(), "key 'b' in mine.toml: a"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_value(text, ask, said):
    with pytest.raises(SchedlabError) as caught:
        ask(table(text))
    assert said in str(caught.value)
