"""`autotune gemm --bucket-m`: a family of products, one for each range of M."""

from __future__ import annotations

import json
from dataclasses import replace

from autotuner.cli.console import emit
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, run_tuning, watched
from autotuner.jobs.buckets import Family, plain_only, tune_family
from autotuner.problems import Gemm
from autotuner.targets import Target
from autotuner.tuning.dry_run import rehearse


def run_gemm(wanted: Gemm | Family, request: Request) -> None:
    """Tunes one product, or a family of them, and ends the process with the contract's exit code."""
    if isinstance(wanted, Gemm):
        run_tuning(wanted, request)
        return
    request.given.refuse(["bundle"], "is for one --shape, and --bucket-m asks for many")
    wanted = replace(wanted, gemm=wanted.gemm.allowing(request.allow_precision))
    target = request.built_for()
    options = request.options()
    if request.cache == "cold":
        request.given.refuse(["cache"], "cold is for one --shape: the buckets' entries are compared with a warm cache")
    if request.dry_run:
        _rehearse(wanted, target, request)
        return
    with watched(request) as watch:
        result = tune_family(wanted, target, options=options, **watch)
    conclude(result, request)


def _rehearse(family: Family, target: Target, request: Request) -> None:
    """The buckets, and what the run of the one would be in which --shape's M falls."""
    rehearsal = rehearse(family.member(family.home.at), plain_only(target), options=request.options())
    if request.as_json:
        buckets = [{"bucket": b.name, "low": b.low, "high": b.high, "tuned_at": b.at} for b in family.buckets]
        print(json.dumps({**rehearsal.to_json(), "buckets": buckets}, indent=2))
        return
    for bucket in family.buckets:
        members = ", ".join(str(m) for m in bucket.members if m != bucket.at) or "no other size"
        print(f"bucket {bucket.name}: {bucket.text}, tuned at M = {bucket.at}, raced at {members} as well")
    print(f"\nthe run at M = {family.home.at}:")
    emit(rehearsal.text())
