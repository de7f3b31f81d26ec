"""What a store has, for tests that hold one against another."""

import sqlite3


def rows(path):
    """All that a store has, but for times of a clock."""
    database = sqlite3.connect(path)
    places = database.execute(
        "SELECT place.policy, place.machine, place.varied, place.seed, runs.* FROM experiment_runs"
        " AS place JOIN runs ON runs.id = run ORDER BY 1, 2, 3, 4"
    )
    names = [column[0] for column in places.description]
    clocks = ("started_at", "wall_ns", "seal", "id")
    return [
        {name: value for name, value in zip(names, row, strict=True) if name not in clocks}
        for row in places
    ]
