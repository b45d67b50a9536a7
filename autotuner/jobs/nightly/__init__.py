"""Suites and models from one file, run every night, and the history of their results."""
