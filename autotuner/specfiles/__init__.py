"""Spec files: reading, merging, checking them."""
