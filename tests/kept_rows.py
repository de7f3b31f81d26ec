"""What a store has, for tests that hold one against another."""

from schedlab.store.parts import VIEW, unpack
from schedlab.store.runs import Store

CLOCKS = ("started_at", "wall_ns", "seal", "id")


def rows(path):
    """All that a store has, but for times of a clock."""
    with Store(path, read_only=True) as store:
        places = store.rows(
            "SELECT place.policy, place.machine, place.varied, place.seed, run.*"
            f" FROM experiment_runs AS place JOIN {VIEW} AS run ON run.id = place.run"
            " ORDER BY 1, 2, 3, 4"
        )
    texts = [{**dict(row), "result": unpack(row["result"])} for row in places]
    return [{name: of[name] for name in of if name not in CLOCKS} for of in texts]
