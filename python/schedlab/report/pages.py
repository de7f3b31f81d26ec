"""Pages: one HTML file each, with its own copy of plotly.js, that loads nothing from anywhere.

Every page's head forbids all requests (`templates/head.html`), so a page that is mailed, archived
or opened without a network shows what it showed its author.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from schedlab import whole_file
from schedlab.report.drawing import Drawing


def render(template: str, forms: Sequence[Callable], **values: Any) -> str:
    """A file of `templates`, filled, as one HTML text; what is `Markup` is not escaped.

    `forms` are filters, each by its own name. A value that the template asks for and that is
    missing is an error; `plotly_js` is there.
    """
    return prepared(template, tuple(forms)).render(plotly_js=Markup(get_plotlyjs()), **values)


@functools.cache
def prepared(template: str, forms: tuple[Callable, ...]) -> Template:
    """A file of `templates`, read, which takes as long as to fill it; `forms` as in `render`."""
    environment = Environment(
        loader=PackageLoader("schedlab", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {form.__name__: form for form in forms}
    return environment.get_template(template)


def write(path: str | os.PathLike[str], html: str, hint: str) -> None:
    """Writes a page whole, or raises SchedlabError; `hint` says how to get at what is in it."""
    with whole_file.named_errors(f"report {path}", hint):
        whole_file.write(path, html)


def script(figure: Drawing) -> Markup:
    """A figure as JSON for a script element, which no text in it can end."""
    return Markup(figure.to_json().replace("<", "\\u003c"))
