"""What questions and answers share: paths, errors that speak of keywords, choice of a figure."""

import difflib
import functools
import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from schedlab import catalogue
from schedlab.errors import BadValue, SchedlabError, UnknownName
from schedlab.store.runs import DEFAULT_PATH

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from schedlab.report.drawing import Drawing

Asked = TypeVar("Asked", bound=Callable)
Path_ = str | Path
# Options of the command line, and those whose keyword here has another name.
OPTION = re.compile(
    r"--(with |set|vary|repeat-max|repeat|seeds?|cpus|kernel|store|jobs|orders|only|until-ci|boots"
    r"|label|again|policies|dask|limit|size|memory|queue|trace|suite|workload|structure|keys|loops"
    r"|rounds|objective|keep|range|trials|fresh|name|write)\b"
)
# What would not be plain if only the names of options were replaced.
PLAIN = [
    (re.compile(words), plain)
    for words, plain in (
        (r"`schedlab list (policies|machines|workloads)(?: -v)?`", r"`\1()`"),
        (
            r"write --set POLICY\.\S+, where POLICY is",
            "give tunables={POLICY: {TUNABLE: VALUE}}, where POLICY is",
        ),
        (
            r"by LABEL=POLICY, as in (\S+)_2=(\S+) --set \S+",
            r"by labels, as in {'\1': '\2', '\1_2': '\2'} with tunables={'\1_2': {TUNABLE: VALUE}}",
        ),
        (r"`schedlab compare` makes one: see --store", "`compare(..., store=PATH)` makes one"),
        (r"name another file with --store", "name another file: store=PATH"),
        (r"^-n: ", "n: "),
        (r", as in -n 10", ", as in 10"),
    )
]
# What is to be typed into a shell keeps its options.
COMMAND = re.compile(r"(`schedlab [^`]*`|(?<=replay: )schedlab .*)", re.DOTALL)
KEYWORDS = {"with ": "", "set": "tunables", "jobs": "processes"}
KEYWORDS |= {"until-ci": "until", "repeat-max": "repeat_max", "range": "ranges", "write": "file"}


def ours(function: Asked) -> Asked:
    """Makes every error that a user can cause a `SchedlabError` that speaks of keywords."""

    @functools.wraps(function)
    def asked(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except SchedlabError as error:
            error.args = tuple(map(_keywords, map(str, error.args)))
            error.hint = error.hint and _keywords(error.hint)
            if isinstance(error, UnknownName) and error.name in options:
                _tell_keywords(error, function)
            raise
        except catalogue.native().NativeError as error:
            hint = _keywords(error.hint or "") or None
            raise SchedlabError(_keywords(error.message), hint) from error

    return asked


def _tell_keywords(error: UnknownName, function: Callable) -> None:
    """Adds the keywords of the call itself to what is said of one that it does not have."""
    of = inspect.signature(function).parameters.values()
    own = [one.name for one in of if one.kind is one.KEYWORD_ONLY]
    close = difflib.get_close_matches(error.name, own, n=1)
    meant = [one for one in (KEYWORDS.get(error.name), *close) if one in own]
    if meant and "did you mean" not in str(error):
        error.args = (f"{error}: did you mean {meant[0]}?",)
    error.hint = f"{error.hint}; keywords of the call: {', '.join(own)}"


def _keywords(text: str) -> str:
    """A text about options, of the keywords that stand for them here."""
    for words, plain in PLAIN:
        text = words.sub(plain, text)
    text = text.replace("add --on vm to run on a real kernel", "give vm() for a real kernel")
    text = text.replace("add --on vm", "give on=vm()")
    text = text.replace("`schedlab run` has --on vm", "give on=vm()")
    text = text.replace(" (--vary)", "").replace(" (--with)", "")
    plain = functools.partial(OPTION.sub, lambda option: KEYWORDS.get(option[1], option[1]))
    parts = enumerate(COMMAND.split(text))
    return "".join(part if number % 2 else plain(part) for number, part in parts)


def command_line(words: Sequence[str], options: Mapping[str, Any], store: Path_) -> str:
    """What asks for the same on the command line.

    An option is given once for each value of a list; none is given for None, False and "", and no
    store where it is the usual one.
    """
    words = ["schedlab", *words]
    kept = None if path_of(store) == DEFAULT_PATH else str(store)
    for option, value in {**options, "--store": kept}.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and one is not False and one != "":
                words += [option] if one is True else [option, str(one)]
    return shlex.join(words)


def listed(given: Any) -> list:
    """One text, path or number as a list of one; several as they are."""
    return [given] if isinstance(given, Integral | str | Path) else list(given)


def path_of(path: Path_, place: str = "store") -> Path:
    """A path as a shell would have it, which knows whose home ~ is. Raises BadValue for what is no
    path; `place` is the keyword that took it."""
    try:
        return Path(path).expanduser()
    except TypeError as error:
        raise BadValue(place, path, "is no path", f'write {place}="FOLDER/FILE"') from error
    except RuntimeError as error:
        why = "is in the home of nobody who is known here"
        raise BadValue(place, path, why, "write the whole path, from / on") from error


def chosen_figure(place: str, name: str | None, drawn: Mapping[str, "Drawing"]) -> "go.Figure":
    """The figure of a name, or the first; `place` is the keyword that takes the name."""
    if not drawn:
        raise SchedlabError("there is nothing to draw: no run completed")
    if name is not None and name not in drawn:
        raise BadValue(place, name, "has no figure", f"give one of {'; '.join(map(repr, drawn))}")
    return drawn[name or next(iter(drawn))].plotly()
