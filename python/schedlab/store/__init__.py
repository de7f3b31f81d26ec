"""Results that survive: one SQLite file of runs, measurements and heats."""
