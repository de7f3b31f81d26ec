"""On PYTHONPATH, a machine on which nobody else works: disturbed repetitions are made once more, so
without it how many there are would follow from what else runs beside the tests."""

from schedlab.bench import environment

environment.FOREIGN_NS_LEAST = 2**62
