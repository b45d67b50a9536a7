"""A bundle's result as another machine might have written it."""

from __future__ import annotations

from pathlib import Path

from autotuner.bundles import archive
from autotuner.bundles.documents import BASELINE, CandidateRecord, Manifest, Report, TimingRecord
from autotuner.measure.blocks import Interval
from autotuner.measure.judgement import Judgement
from autotuner.measure.standing import Kind


def said_to_win(
    manifest: Manifest,
    folder: Path,
    *,
    kind: Kind = "codegen",
    judgement: Judgement | None = None,
    seconds: float = 1.0,
) -> Path:
    """A result in which a candidate is twice as fast as the default, and wins unless another judgement is given."""
    winner = next(one.id for one in manifest.entries if one.kind == kind)
    times = {BASELINE: 2.0, winner: 1.0}
    data = manifest.to_bytes()
    report = Report(
        bundle=archive.digest(data),
        device="local-task",
        environment={"iree": manifest.iree, "host": "there", "device_name": "a chip", "driver": "", "load": 0.0},
        tried=tuple(
            CandidateRecord(name, None, 0.0, "", [TimingRecord("screen", 0, (us,))]) for name, us in times.items()
        ),
        judgement=judgement
        or Judgement(
            "win", "faster", BASELINE, winner, us=times, speedup=Interval(2.0, 1.9, 2.1), confirmed_name=winner
        ),
        seconds=seconds,
        notes=(),
    )
    archive.write(folder / "result.zip", {archive.MANIFEST: data, archive.RESULT: report.to_bytes()}, {})
    return folder / "result.zip"
