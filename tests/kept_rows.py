"""What a store has, for tests that hold one against another."""

import contextlib

from schedlab.errors import StoreError
from schedlab.store.runs import Store

# Of a clock, and of the question rather than of the run.
NOT_COMPARED = ("started_at", "wall_ns", "experiment")


def nr_kept(path):
    """How many runs there are, in a store that may just be being made."""
    with contextlib.suppress(StoreError), Store(path, read_only=True) as store:
        return store.rows("SELECT count(*) FROM runs")[0][0]
    return 0


def rows(path):
    """Every run in its place in an experiment, with all that is kept of it but times of a clock."""
    with Store(path, read_only=True) as store:
        records = [record for of in store.experiments() for record in store.runs(of.id)]
    found = []
    for record in records:
        manifest = {k: v for k, v in record.manifest.items() if k not in NOT_COMPARED}
        found.append(vars(record) | {"manifest": manifest})
    return sorted(
        found, key=lambda row: [str(row[k]) for k in ("policy", "machine", "varied", "seed")]
    )
