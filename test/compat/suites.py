"""The drivers' own test suites, as their packages ship them, run at both addresses."""

SUITES = []
