"""Many problems at once: named suites, lists of shapes and library logs, weighed by what each contributes."""

THRESHOLD = 0.1
"""Per cent of the workload's time below which a problem is not worth tuning."""
LEAST_SECONDS = 30.0
"""Below this a run has no time for a search and a race: better fewer problems with a verdict."""
