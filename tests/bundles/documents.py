"""A small manifest and a small result, as plain documents."""

from __future__ import annotations

import json
from typing import Any

from autotuner.bundles.documents import BASELINE, CandidateRecord, Entry, Manifest, Report, TimingRecord
from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.measure.blocks import Interval
from autotuner.measure.judgement import Judgement

DIGEST = "0" * 64
MANIFEST = Manifest(
    run="20260101-000000-abcdef",
    problem="gemm_64x64x64_f32_f32_nn",
    allow="",
    target="cpu",
    flags=(),
    chip="x86_64",
    iree="3.13.0",
    autotune="0.1.0",
    microkernels=("auto",),
    seed=0,
    trials=2,
    budget=60.0,
    smallest_gain=0.01,
    race_entrants=8,
    run_timeout=60.0,
    repetition_seconds=0.02,
    entries=(
        Entry(BASELINE, "baseline", "plain", "route plain", 0, (), "code", {1: DIGEST, 8: "1" * 64}),
        Entry("c0001", "codegen", "plain", "m=8", 101, (("route", "plain"), ("m", 8)), "other", {1: "2" * 64}),
    ),
)


def timing(us: float, phase: Any = "screen") -> TimingRecord:
    return TimingRecord.of(phase, 0, Timing((us, us), conditions=Conditions("sustained", "warm", Sample(mhz=900.0))))


REPORT = Report(
    bundle=DIGEST,
    device="local-task",
    environment={"host": "there", "load": 0.5, "device_mhz": None},
    tried=(
        CandidateRecord(BASELINE, None, 0.0, "", [timing(2.0), timing(2.1, "confirm")]),
        CandidateRecord("c0001", None, 1e-7, "", [timing(1.0)]),
    ),
    judgement=Judgement(
        "win",
        "faster",
        BASELINE,
        winner="c0001",
        us={BASELINE: 2.0, "c0001": 1.0},
        speedup=Interval(2.0, 1.9, 2.1),
        confirmed_name="c0001",
    ),
    seconds=12.5,
    notes=("a note",),
)


def plain(document: Manifest | Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.to_bytes())
    return found
