"""What is said to people of a family of products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotuner.system.text import microseconds
from autotuner.tuning.printer import tell_problem

if TYPE_CHECKING:
    from autotuner.jobs.buckets.result import FamilyResult
    from autotuner.tuning.printer import Printer


def tell_family(result: FamilyResult, printer: Printer) -> None:
    """The verdict, each bucket, and what to do with it."""
    tell_problem(result, printer)
    for one in result.details.buckets:
        printer.line("bucket", f"{one.bucket.text}: {one.kept}, {one.reason}")
        for member in one.members:
            where = "dynamic M" if member.m is None else f"M = {member.m}"
            told = member.failure or ("built, proven and right" if member.checked else "built and proven")
            if member.speedup is not None:
                span = f"{member.speedup.median:.3f}x ({member.speedup.bounds})"
                told = f"{microseconds(member.us)}, default {microseconds(member.baseline_us)}, {span}"
            printer.line("", f"  {where}: {told}")
