"""Sweeps: any number of runs, simulated here or on other computers, and kept here."""
