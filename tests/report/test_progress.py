"""Goal: who waits sees where work is, and nobody else is told. Method: a terminal that is read."""

import io
import sys
from types import SimpleNamespace

from schedlab import shown
from schedlab.report.progress import Progress, left_text, measuring


class Terminal(io.BytesIO):
    """What is below a standard error that is a terminal."""

    def isatty(self):
        return True

    @property
    def written(self):
        return self.getvalue().decode()


def opened(monkeypatch):
    """Standard error becomes a terminal for the rest of a test."""
    below = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = io.TextIOWrapper(below, encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stderr", shown.Stream(stream, "standard error"))
    return below


def test_a_terminal_sees_how_much_is_done_and_nothing_is_left_behind(monkeypatch):
    terminal = opened(monkeypatch)
    with Progress(2, "runs", is_measured=True) as progress:
        progress.update(0, "first")
        assert "0/2 runs" in terminal.written
        assert "first" in terminal.written
        progress.done("second")
        assert "1/2 runs" in terminal.written
        progress.update(1, left="3 s left at most")
        assert "3 s left at most" in terminal.written
    # The line is erased, and the cursor shown again.
    assert terminal.written.endswith(("\x1b[2K", "\x1b[?25h"))


def test_more_may_come_while_work_is_done(monkeypatch):
    terminal = opened(monkeypatch)
    with Progress(2, "heats", is_measured=True) as progress:
        progress.update(1, total=3, share=0.9)
        assert "1/3 heats" in terminal.written


def test_what_a_terminal_would_obey_is_written_out(monkeypatch):
    terminal = opened(monkeypatch)
    with Progress(2, "runs", is_measured=True) as progress:
        progress.update(0, "\x1b]0;title\x07")
        progress.note("note: \x1b]0;title\x07")
    assert "\x1b]0;" not in terminal.written
    assert terminal.written.count("\\x1b]0;title\\x07") >= 2


def test_a_pipe_hears_notes_once_and_of_progress_only_of_long_work(capsys):
    with Progress(2, "runs") as progress:
        progress.done("one")
        for text in ("note: a", "note: b", "note: a"):
            progress.note(text)
        progress.note("note: c", key="note: a")
    assert capsys.readouterr().err == "note: a\nnote: b\n"
    with measuring(9, quiet=False) as progress:
        progress.update(1, "limit", left=left_text(60.0))
        progress.update(2, "limit")
    assert capsys.readouterr().err == "1/9 repetitions, 1 min 0 s left at most: limit\n"


def test_the_quiet_hear_only_what_must_be_known(capsys):
    with measuring(9, quiet=True) as progress:
        progress.update(1, "limit")
        progress.note("note: slow")
        progress.tell("error: limit failed")
    assert capsys.readouterr().err == "error: limit failed\n"


def test_stages_of_unknown_number_are_drawn_with_the_time_they_take(monkeypatch):
    terminal = opened(monkeypatch)
    with Progress(0, "", is_measured=True) as progress:
        progress.update(0, "booting")
    assert "booting" in terminal.written
    assert "0:00:00" in terminal.written


def test_a_notebook_sees_it_in_the_cell_that_runs(monkeypatch, capsys):
    texts = []
    line = SimpleNamespace(update=lambda data, raw: texts.append(data["text/plain"]))
    ipython = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel="one"),
        display=SimpleNamespace(display=lambda *data, **options: line),
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with Progress(2, "runs") as progress:
        progress.update(1, "second", left="3 s left")
        progress.update(2, "so soon that nobody would see it")
    assert texts == ["1/2 runs, second, 3 s left", ""]
    with Progress(2, "runs", quiet=True) as progress:
        progress.done()
    assert len(texts) == 2
    # IPython in a terminal has a shell, which has no kernel.
    ipython.get_ipython = lambda: SimpleNamespace()
    with Progress(2, "runs") as progress:
        progress.done()
    assert len(texts) == 2
    assert capsys.readouterr().err == ""
