"""Options that several verbs share."""

import click


def scenario_options(command):
    """What a workload and a policy are given."""
    for option in reversed(
        (
            click.option(
                "--with",
                "parameters",
                metavar="NAME=VALUE",
                multiple=True,
                help="A parameter of the workload, as in groups=10.",
            ),
            click.option(
                "--set",
                "settings",
                metavar="[POLICY.]TUNABLE=VALUE",
                multiple=True,
                help="A tunable of a policy; 6ms, 250us, 1024, true.",
            ),
        )
    ):
        command = option(command)
    return command
