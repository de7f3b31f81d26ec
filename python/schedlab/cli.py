"""The command `schedlab`: from its words to an exit code.

Data go to stdout, all else to stderr. Exit codes: 0 all is well, 1 something was found (a run
failed), 2 the input is wrong, 130 interrupted, 143 terminated. This module imports next to
nothing, so that Ctrl-C is answered quietly even while `verbs` and what it needs are being loaded.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM asks for the same as Ctrl-C, and so gets the same: workers end, all runs are kept."""


def main() -> None:
    """Runs the command line and exits; no error of the world ends in a traceback."""
    if sys.stdout is None or sys.stderr is None:
        # Closed by the shell (>&-): there is nowhere to say so.
        sys.exit(EXIT_BAD_INPUT)
    try:
        _handle_signals(interrupt=_leave, terminate=_leave)
        code = _silenced(_run())
        _ignore_signals()
    except KeyboardInterrupt as error:
        code = _interrupted(error)
    sys.exit(code)


def _handle_signals(interrupt: Callable, terminate: Callable) -> None:
    """Ctrl-C stays ignored if whoever started us ignores it, as a shell does for its jobs."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)


def _leave(signal_number: int, _frame: object) -> None:
    """While modules load there is nothing to end, and importlib would swallow an exception."""
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(EXIT_INTERRUPTED if signal_number == signal.SIGINT else EXIT_TERMINATED)


def _terminate(_signal: int, _frame: object) -> None:
    raise Terminated


def _run() -> int:
    """The exit code of the verb, or of what kept it from its end."""
    import click

    from schedlab.errors import SchedlabError
    from schedlab.verbs import schedlab

    _handle_signals(interrupt=signal.default_int_handler, terminate=_terminate)
    try:
        code = schedlab.main(standalone_mode=False)
        sys.stdout.flush()
        return code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        return _report_usage_error(error)
    except SchedlabError as error:
        return _report_error(str(error), error.hint)
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
        return _report_error(str(error), None)
    except Exception as error:
        if not _is_native(error):
            raise
        return _report_error(str(error), None)


def _interrupted(why: BaseException | None) -> int:
    """Says so once."""
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
            if not code:
                broken = isinstance(error, BrokenPipeError)
                code = EXIT_BROKEN_PIPE if broken else EXIT_BAD_INPUT
    return code


def _report_error(message: str, hint: str | None) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _report_usage_error(error: Exception) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    hint = f"see `{context.command_path} --help`" if context else None
    return _report_error(message[:1].lower() + message[1:].rstrip("."), hint)


def _is_native(error: Exception) -> bool:
    return any(base.__name__ == "NativeError" for base in type(error).__mro__)
