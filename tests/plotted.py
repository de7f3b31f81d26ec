"""Figures as Plotly has checked them: a name or a value that it does not know is a ValueError."""

from types import ModuleType


class Plotted:
    """A module whose functions that draw a figure give Plotly's; all else is the module's."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name: str):
        found = getattr(self._module, name)
        if not name.endswith("_figure"):
            return found
        return lambda *arguments, **named: found(*arguments, **named).plotly()
