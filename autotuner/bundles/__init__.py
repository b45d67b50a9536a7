"""Bundles: candidates built on one machine and timed on another without a compiler.

This module has the options of `bundle run`: for typer, and for a machine with IREE's runtime only.
"""

from __future__ import annotations

from dataclasses import dataclass

SUMMARY = "Check, time and race what a bundle holds. IREE's runtime, numpy and this package suffice; no compiler."
BUNDLE = "What --bundle wrote."


@dataclass(frozen=True)
class Word:
    """An option's names and help."""

    names: tuple[str, ...]
    help: str


OUTPUT = Word(("-o", "--output"), "Where the result goes, a .zip file. [default: BUNDLE-result.zip]")
FORCE = Word(("--force",), "Write over a file that autotune did not write, too.")
DEVICE = Word(("--device",), "IREE device URI. [default: the target's first]")
BUDGET = Word(("--budget",), "At most this long: 90s, 10m, 1h30m. [default: the bundle's]")
JSON = Word(("--json",), "One JSON document on stdout, all else on stderr.")
QUIET = Word(("--quiet", "-q"), "No progress, only the result.")
