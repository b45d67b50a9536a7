"""Whole models: their dispatches taken out, ranked, tuned one by one, and put together again."""
