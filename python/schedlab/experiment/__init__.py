"""Grids of runs: what was asked, what was made, what it says, how it is shown."""
