"""The verbs of the command `schedlab`, each in a module that is loaded when it is asked for.

A verb returns its exit code; what goes wrong is raised, and told by `cli`.
"""

from __future__ import annotations

from importlib import import_module

import click

from schedlab.errors import UnknownName

# Verb: its module in this package, and its function there.
VERBS = {
    name: (name, f"{name}_verb")
    for name in (
        "agree",
        "bench",
        "calibrate",
        "check",
        "compare",
        "doctor",
        "export",
        "load",
        "merge",
        "race",
        "report",
        "reproduce",
        "run",
        "size",
        "validate",
    )
}
LIST = {name: ("list", f"list_{name}") for name in ("machines", "policies", "workloads")}
KERNELS = {name: ("kernels", f"{name}_verb") for name in ("add", "fetch", "list")}


class Verbs(click.Group):
    """A group of verbs that loads the one it is asked for, and suggests one for a misspelt name."""

    def __init__(self, *arguments, modules: dict[str, tuple[str, str]], **options):
        super().__init__(*arguments, **options)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all verbs, in the order of the alphabet."""
        return sorted({*self.modules, *self.commands})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The verb of this name, if there is one."""
        if name in self.modules:
            module, verb = self.modules[name]
            return getattr(import_module(f"schedlab.commands.{module}"), verb)
        return super().get_command(ctx, name)

    def resolve_command(self, ctx: click.Context, args: list[str]):
        """Finds the verb, or raises UnknownName with those spelled alike."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownName("verb", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from schedlab import __version__

        click.echo(f"schedlab {__version__}")
        context.exit()


@click.group(cls=Verbs, modules=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def schedlab() -> None:
    """A laboratory for CPU schedulers: write a policy once in C, try it on any machine.

    POLICY is a name from `schedlab list policies`, or the path of your own .bpf.c file; after
    either, @SET names one of its tunable sets.
    """


schedlab.add_command(
    Verbs("list", modules=LIST, help="List the policies, machines or workloads that there are.")
)
schedlab.add_command(
    Verbs("kernels", modules=KERNELS, help="List, fetch or add kernels for virtual machines.")
)
