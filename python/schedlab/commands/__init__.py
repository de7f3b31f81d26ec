"""The verbs of the command `schedlab`, each in a module that is loaded when it is asked for.

A verb returns whether it found something wrong; what goes wrong is raised, and told by `cli`.
"""

from importlib import import_module

import click

from schedlab.errors import UnknownName

# What each verb does, as its own docstring begins: `--help` lists them without loading one.
VERBS = {
    "agree": "Compare the simulator's decisions with a real kernel's.",
    "bench": "Measure this machine under the scheduler that it has now.",
    "calibrate": "Measure what this machine's kernel operations cost.",
    "check": "Check what a policy must do, and what it promises.",
    "compare": "Compare policies on machines and workloads.",
    "doctor": "Tell what works here, and what to install for the rest.",
    "export": "Write what a store holds as CSV, Parquet or LaTeX.",
    "kernels": "List, fetch or add kernels for virtual machines.",
    "list": "List the policies, machines or workloads that there are.",
    "load": "Let a policy schedule this machine, and show what it does.",
    "merge": "Take all that other stores hold into one store.",
    "race": "Race run queues: which one is fastest at your size?",
    "report": "Make a page of what a store holds.",
    "reproduce": "Show published figures beside ours.",
    "run": "Run one policy once, simulated or on a real kernel.",
    "sweep": "Make all runs of an experiment file, which may draw a sample.",
    "size": "Tell how many bytes of code and data policies are.",
    "tune": "Search values of a policy's tunables for an objective.",
    "validate": "Compare this machine with its own simulation.",
}
KERNELS = {
    "add": "Take in a kernel of your own.",
    "fetch": "Get kernels from Debian's packages, without root.",
    "list": "Every kernel in the cache, and what its own scheduler is.",
}
LIST = {
    "machines": "Every machine and what it stands for.",
    "policies": "Every policy and its idea, and its tunable sets.",
    "workloads": "Every workload and what it does.",
}
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


class Verbs(click.Group):
    """A group of verbs that loads the one it is asked for, and suggests one for a misspelt name.

    They are functions of one `module` in this package, or each is of one that has its name. Until
    it is asked for, a verb is there by its name and by what it does.
    """

    def __init__(self, *arguments, verbs: dict[str, str], module: str = "", **options):
        super().__init__(*arguments, **options)
        self.commands = {name: click.Command(name, help=does) for name, does in verbs.items()}
        self.module = module

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes what each verb does, in as many lines as that takes."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in sorted(self.commands.items())])

    def resolve_command(self, ctx: click.Context, args: list[str]):
        """Finds and loads the verb, or raises UnknownName with those spelled alike."""
        if args[0] and not args[0].startswith("-") and args[0] not in self.commands:
            raise UnknownName("verb", args[0], self.commands)
        name, verb, rest = super().resolve_command(ctx, args)
        if not isinstance(verb, Verbs):
            module = import_module(f"schedlab.commands.{self.module or name}")
            verb = getattr(module, f"{name}_verb")
        return name, verb, rest


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from schedlab import __version__

        click.echo(f"schedlab {__version__}")
        context.exit()


@click.group(cls=Verbs, verbs=VERBS, context_settings=SETTINGS)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False,
              callback=_print_version, help="Show the version and exit.")  # fmt: skip
def schedlab() -> None:
    """A laboratory for CPU schedulers: write a policy once in C, try it on any machine.

    POLICY is a name from `schedlab list policies`, or the path of your own .bpf.c file, of a
    .bpf.o that clang made of one, or of a .loader.toml that stands for the front end of one;
    after any, @SET names one of its tunable sets.
    """


for group, verbs in (("list", LIST), ("kernels", KERNELS)):
    schedlab.add_command(Verbs(group, verbs=verbs, module=group, help=VERBS[group]))
