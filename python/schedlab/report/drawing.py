"""A figure on its way: what Plotly is to draw, as its JSON says it and as nobody has checked yet.

Plotly's own figures check every value when it is set, and take longer for that than all else that a
page is made of. Tests let them check ours; whoever wants to go on with one has `plotly` make it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import plotly.io

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass
class Drawing:
    """Traces in the order in which they are drawn, and a layout; both as in plotly.js's reference,
    with inner names in dicts of their own. None stands for what is not said.

    Methods are named as those of Plotly's figures.
    """

    layout: dict = field(default_factory=dict)
    data: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The caller's stays as it is.
        self.layout = copy.deepcopy(self.layout)

    def add_scatter(self, **trace: Any) -> None:
        """Adds points, or lines between them."""
        self.data.append({"type": "scatter", **trace})

    def add_bar(self, **trace: Any) -> None:
        """Adds bars."""
        self.data.append({"type": "bar", **trace})

    def add_annotation(self, **annotation: Any) -> None:
        """Adds a text beside the traces."""
        self.layout.setdefault("annotations", []).append(annotation)

    def add_shape(self, **shape: Any) -> None:
        """Adds a line or an area."""
        self.layout.setdefault("shapes", []).append(shape)

    def add_hline(self, y: float, **shape: Any) -> None:
        """Adds a line at a height, from one end of the plot to the other."""
        ends = {"x0": 0, "x1": 1, "y0": y, "y1": y, "xref": "x domain", "yref": "y"}
        self.add_shape(type="line", **ends, **shape)

    def add_vline(self, x: float, **shape: Any) -> None:
        """Adds a line at a place of the x axis, from the bottom of the plot to its top."""
        ends = {"x0": x, "x1": x, "y0": 0, "y1": 1, "xref": "x", "yref": "y domain"}
        self.add_shape(type="line", **ends, **shape)

    def update_xaxes(self, **changes: Any) -> Drawing:
        """Changes what is said of the x axis."""
        return self.update_layout(xaxis=changes)

    def update_yaxes(self, **changes: Any) -> Drawing:
        """Changes what is said of the y axis."""
        return self.update_layout(yaxis=changes)

    def update_layout(self, **changes: Any) -> Drawing:
        """Changes the layout; what is not named stays, inside dicts as well."""
        _change(self.layout, changes)
        return self

    def to_json(self) -> str:
        """The figure for plotly.js."""
        told = _without_none({"data": self.data, "layout": self.layout})
        return plotly.io.to_json(told, validate=False)

    def plotly(self) -> go.Figure:
        """A figure of Plotly's; ValueError if it knows one of the names or values not."""
        import plotly.graph_objects as go

        # Without a template Plotly adds its own.
        return go.Figure(_without_none(vars(self))).update_layout(template=None)


def _change(said: dict, changes: Mapping) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(said.get(name), Mapping):
            said[name] = dict(said[name])
            _change(said[name], value)
        else:
            said[name] = value


def _without_none(told: Mapping) -> dict:
    """The same without what is None; lists keep theirs, which are gaps."""
    found = {}
    for name, value in told.items():
        if isinstance(value, Mapping):
            value = _without_none(value)
        elif name in ("data", "annotations", "shapes"):
            value = [_without_none(one) for one in value]
        if value is not None:
            found[name] = value
    return found
