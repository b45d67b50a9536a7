"""The search: ask for configurations, tell their results. Optuna is imported when a search begins."""

GUIDED = "guided"
"""The name of autotune's own sampler."""
