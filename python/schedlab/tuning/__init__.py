"""Looks for values of tunables that are best for an objective, and asks again whether they are."""
