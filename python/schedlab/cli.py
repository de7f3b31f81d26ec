"""The command `schedlab`: from its words to an exit code.

Data go to stdout, all else to stderr. Exit codes: 0 all is well, 1 something was found (a run
failed), 2 the input is wrong, 130 interrupted, 143 terminated. This module imports next to
nothing, so that Ctrl-C is answered quietly even while a verb and what it needs are being loaded.
"""

import contextlib
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable

from schedlab import shown

# A verb did its work and found something wrong: a failed run, an obstacle, a difference.
EXIT_FOUND = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_TERMINATED = 143

# Of an error that is shown; the rest of it is left out and counted.
MESSAGE_LINES_MAX = 200
LINE_CHARACTERS_MAX = 2_000

WAYS_OUT = {
    errno.ENOSPC: "make room there, or name another place",
    errno.EDQUOT: "make room there, or name another place",
    errno.EMFILE: "allow more, as by `ulimit -n 1024`",
    errno.ENFILE: "wait until other programs have closed some",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM asks for the same as Ctrl-C, and so gets the same: workers end, all runs are kept."""


def main() -> None:
    """Runs the command line and exits; no error of the world ends in a traceback."""
    _handle_signals(interrupt=_leave, terminate=_leave)
    _fill_closed_streams()
    if sys.stdout is None:
        hint = "leave out >&-, or write >/dev/null for an answer that nobody is to see"
        sys.exit(_report_error("standard output is closed, so there is nowhere to answer", hint))
    shown.install()
    try:
        code = _silenced(_run())
        _ignore_signals()
    except KeyboardInterrupt as error:
        code = _interrupted(error)
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Leads what the shell has closed (>&-) to nowhere.

    The next file would get its number otherwise, and whatever writes there would write into it.
    Without standard error (2>&-) nobody wants to hear of anything, which is no error.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _handle_signals(interrupt: Callable, terminate: Callable) -> None:
    """Ctrl-C stays ignored if whoever started us ignores it, as a shell does for its jobs."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)


def _leave(signal_number: int, _frame: object) -> None:
    """While modules load there is nothing to end, and importlib would swallow an exception."""
    if sys.stderr is not None:
        os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(EXIT_INTERRUPTED if signal_number == signal.SIGINT else EXIT_TERMINATED)


def _terminate(_signal: int, _frame: object) -> None:
    raise Terminated


def _run() -> int:
    """The exit code of the verb, or of what kept it from its end."""
    foreign = next(filter(_is_not_utf8, sys.argv[1:]), None)
    if foreign is not None:
        return _report_error(*_not_utf8(f"argument '{foreign}'"))
    import click

    from schedlab.errors import SchedlabError

    try:
        from schedlab.commands import schedlab

        _handle_signals(interrupt=signal.default_int_handler, terminate=_terminate)
        # Piped, click would take escape sequences out, where `shown` shows them.
        is_found = schedlab.main(standalone_mode=False, color=True)
        sys.stdout.flush()
        return EXIT_FOUND if is_found else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        message, context = error.format_message(), getattr(error, "ctx", None)
        hint = f"see `{context.command_path} --help`" if context else None
        return _report_error(message[:1].lower() + message[1:].rstrip("."), hint)
    except SchedlabError as error:
        is_of_option = str(getattr(error, "place", "")).startswith("--")
        help_hint = f"see `schedlab {sys.argv[1]} --help`" if is_of_option else None
        return _report_error(str(error), error.hint or help_hint)
    except click.Abort as error:
        # What click makes of Ctrl-C.
        return _interrupted(error.__cause__)
    except BrokenPipeError:
        # The reader has enough.
        return EXIT_BROKEN_PIPE
    except SystemExit as error:
        # click leaves so, with 1, where a pipe breaks.
        return EXIT_BROKEN_PIPE if error.code == 1 else error.code
    except OSError as error:
        return _report_error(*_told_by_system(error))
    except MemoryError:
        return _report_error("there is not enough memory for this", "ask for less at a time")
    except UnicodeEncodeError as error:
        # A name that arguments only lead to: a folder, or where a link leads.
        if not _is_not_utf8(error.object):
            raise
        return _report_error(*_not_utf8(f"'{error.object}'"))
    except Exception as error:
        if not any(base.__name__ == "NativeError" for base in type(error).__mro__):
            raise
        return _report_error(str(error), None)


def _interrupted(why: BaseException | None) -> int:
    _ignore_signals()
    print("interrupted", file=sys.stderr)
    return EXIT_TERMINATED if isinstance(why, Terminated) else EXIT_INTERRUPTED


def _ignore_signals() -> None:
    """From here on all is done and said: Ctrl-C while Python exits changes nothing.

    Python, as it exits, gives a handler of its own back to the system, which kills; not this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _silenced(code: int) -> int:
    """The exit code once all output is out; what cannot be written is not tried again.

    Python flushes at exit and would turn a full disk or a closed pipe into codes of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            is_broken = isinstance(error, BrokenPipeError)
            code = code or (EXIT_BROKEN_PIPE if is_broken else EXIT_BAD_INPUT)
    return code


def _is_not_utf8(text: str) -> bool:
    """Whether Python keeps in it bytes of the system that are no UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _not_utf8(what: str) -> tuple[str, str]:
    """Stores, reports and policies hold names as text: no other kind of name is taken at all."""
    return f"{what} is not UTF-8", "rename the file or folder, or write the value in UTF-8"


def _told_by_system(error: OSError) -> tuple[str, str | None]:
    """What kept the system from something, what of, and a way out where one is known."""
    reason = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reason += f", as no more than {most} may be open at a time"
    named = error.filename if isinstance(error.filename, str) else "the system"
    return f"{named}: {reason[:1].lower()}{reason[1:]}", WAYS_OUT.get(error.errno)


def _report_error(message: str, hint: str | None) -> int:
    """Says what is wrong; where that cannot be said, the exit code alone does."""
    with contextlib.suppress(OSError):
        print(f"error: {_bounded(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {_bounded(hint)}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _bounded(message: str) -> str:
    """A message without the middle of long lines, and of many: files and compilers make both."""
    from schedlab.errors import shortened

    lines, kept = message.split("\n"), MESSAGE_LINES_MAX // 2
    if len(lines) > MESSAGE_LINES_MAX:
        lines[kept:-kept] = [f"[… {len(lines) - 2 * kept:,} lines left out …]"]
    return "\n".join(shortened(line, LINE_CHARACTERS_MAX) for line in lines)
