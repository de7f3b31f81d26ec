"""Goal: what a comparison needs at its end is loaded while its runs are made, and only if these
take long. Method: a module of the standard library that nothing else here loads.
"""

import sys
import threading

import pytest
from running import wait_for
from schedlab.commands.compare import loading

MODULE = "this"


@pytest.fixture(autouse=True)
def is_not_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


def test_modules_are_there_after_a_long_wait():
    with loading([MODULE], after_s=0.0):
        wait_for(lambda: MODULE in sys.modules, "the module")
    assert MODULE in sys.modules


def test_nothing_is_loaded_for_a_short_wait():
    with loading([MODULE], after_s=3600.0):
        pass
    assert MODULE not in sys.modules


def test_whoever_gives_up_waits_for_no_module():
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), loading([MODULE], after_s=3600.0):
        raise KeyboardInterrupt
    wait_for(lambda: threading.active_count() == before, "the end of the thread")
    assert MODULE not in sys.modules


def test_a_module_that_is_missing_is_no_error_of_the_wait(capsys):
    before = threading.active_count()
    with loading(["schedlab.no_such_module", MODULE], after_s=0.0):
        wait_for(lambda: threading.active_count() == before, "the end of the thread")
    assert MODULE not in sys.modules
    assert capsys.readouterr().err == ""
