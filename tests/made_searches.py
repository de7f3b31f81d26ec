"""Options of searches, and costs of runs, as tests make them up."""

from schedlab.tuning.costs import MEASURES


def options(**given):
    usual = {"policy": "round_robin", "objectives": ["p99_wakeup"], "keeps": [], "only": []}
    usual |= {"workloads": ["sleepers"], "machines": ["laptop"], "holdouts": [], "with": {}}
    usual |= {"set": {}, "ranges": {}, "trials": 8, "repeat": 3, "seed": 1, "fresh": None}
    return usual | given


def costs(**given):
    return dict.fromkeys(MEASURES) | given
