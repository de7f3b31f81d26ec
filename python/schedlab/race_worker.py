"""One heat of the race, in a process of its own where anybody's queue takes part.

A plug-in is native code: it may crash, exit, or never return. In a process of its own that is the
end of a heat and not of the race, and Ctrl-C ends it whatever it is at.
"""

from __future__ import annotations

import contextlib
import json
import signal

from schedlab import catalogue
from schedlab.workers import Crew


def race(spec: dict) -> dict:
    """The heat that the core makes of `spec`, as `_native.race_heat` describes both.

    Raises
    ------
    RaceError
        If the heat cannot be raced, or a plug-in ended the process that it ran in.
    """
    if not spec["plugins"]:
        return json.loads(catalogue.native().race_heat(json.dumps(spec)))
    with contextlib.closing(Crew(1, _raced)) as crew:
        crew.begin(spec, alone=True)
        endings = []
        while not endings:
            endings = crew.wait()
    (ending,) = endings
    error = _ended(ending.exit_code) if ending.exit_code is not None else None
    heat, error = (None, error) if error else ending.answer
    if error is not None:
        raise catalogue.native().RaceError(error)
    return heat


def _raced(spec: dict) -> tuple[dict | None, str | None]:
    """The heat, or what kept it from being raced."""
    native = catalogue.native()
    try:
        return json.loads(native.race_heat(json.dumps(spec))), None
    except native.RaceError as error:
        return None, str(error)


def _ended(exit_code: int) -> str:
    """What to say of a heat whose process ended before it."""
    how = f"it called exit({exit_code})"
    if exit_code < 0:
        known = {number.value: number.name for number in signal.Signals}
        how = f"{known.get(-exit_code, f'signal {-exit_code}')} ended it"
    return (
        f"a plug-in did not come to the end of its heat: {how}\n"
        "hint: --with one plug-in at a time shows which; a sanitizer shows where:"
        " cc -fsanitize=address,undefined"
    )
