"""Bundles: candidates built on one machine and timed on another without a compiler."""
