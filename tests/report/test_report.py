"""The page of a run: its numbers are those of the rows, and no run is too long for it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from markupsafe import escape

from autotuner.devices.device import Timing
from autotuner.report import charts, history, kinds, reading, sections
from autotuner.report.reading import Run
from autotuner.report.report import report, roof
from autotuner.space.table import Config
from autotuner.store.rows import Kind, NewRun
from autotuner.store.store import Store
from autotuner.targets.catalog import PEAKS, all_targets, peak_of
from tests.support.stored_runs import HOSTILE, RACED, a_search

SECTIONS = (*("Search", "Finalists", "Failures", "Environment", "Candidates"),)


@pytest.fixture
def run(store: Store) -> Run:
    return read(store, a_search(store))


def read(store: Store, run: str) -> Run:
    return reading.read(store, store.run(run))


def changed(run: Run, **document: Any) -> Run:
    """The same with another result."""
    return replace(run, row=replace(run.row, result={**run.document, **document}))


def headings(page: str) -> list[str]:
    return re.findall(r"<h[234][^>]*>(.*?)</h[234]>", page)


def test_a_page_has_every_section_and_the_commands(store: Store, run: Run) -> None:
    page = report(store, [run.row.id])
    assert [name for name in SECTIONS if name not in headings(page)] == []
    assert "autotune gemm --shape 256x256x512" in page
    assert escape("iree-compile your_program.mlir '@/tmp/specs/a b.flags' -o your_program.vmfb") in page


def test_names_of_strangers_are_text_wherever_they_stand(store: Store) -> None:
    """In the problem, the target, the device, the environment, knobs, routes, files, stderr and the verdict."""
    evil = "\"'></td></script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}"
    run = store.start_run(NewRun("single", evil, [evil], {"op": evil, "name": evil}, evil, evil, 0))
    store.record_environment(run, {"iree": evil, "device_name": evil, evil: evil})
    kinds_of: tuple[Kind, ...] = ("baseline", "codegen", "codegen")
    for ordinal, kind in enumerate(kinds_of):
        config = Config.of({evil: evil, "tile": ordinal})
        row = store.add_candidate(run, ordinal=ordinal, config=config, kind=kind, route=evil)
        store.record_timing(row, Timing((1.0 + ordinal, 2.0)), phase="race", block=0)
    store.record_failure(store.add_candidate(run, ordinal=3, config=Config(())), "compile-error", stderr=evil)
    best = {"us": 1.0, "config": {evil: evil}, "route": evil, "candidate": evil}
    told = {"verdict": evil, "reason": evil, "notes": [evil], "best": best, "spec": evil}
    store.finish_run(run, "finished", result=told)
    for page in (report(store, [run]), report(store)):
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "&lt;img src=x" in page
        assert "7*7" in page


def test_best_so_far_only_falls_and_ends_at_the_fastest(run: Run) -> None:
    fastest = min(candidate.us for candidate in run.timed if candidate.us)
    chart = charts.progress(run)
    assert chart is not None
    along, down = zip(*chart.path, strict=True)
    assert list(down) == sorted(down, reverse=True)
    assert list(along) == sorted(along)
    assert (along[-1], down[-1]) == (len(run.timed), fastest)


def test_without_a_device_what_was_proven_is_listed_by_its_estimate(run: Run) -> None:
    built = tuple(replace(row, us=None, state="built", failure="") for row in run.candidates)
    ranking = [{"candidate": name, "estimate": {"score": 3.14159}} for name in ("c0005", "c0002")]
    document = {"verdict": "compile-only", "ranking": ranking, "baseline": {"estimate": {"score": 9}}}
    untimed = replace(changed(run, **document), candidates=built, finalists=())
    section = sections.finalists(untimed)
    assert section is not None
    (table,) = section.tables
    assert table.rows == [("default", "9.00"), ("c0005", "3.14"), ("c0002", "3.14")]


def test_a_finalists_interval_is_that_of_its_blocks(run: Run) -> None:
    (finalist,) = run.finalists
    assert finalist.interval is not None
    assert (finalist.phase, finalist.blocks) == ("race", RACED)
    fastest = min(candidate.us for candidate in run.timed if candidate.us)
    assert math.isclose(finalist.median, 500.0 / fastest, rel_tol=1e-9)
    assert finalist.interval.low <= finalist.median <= finalist.interval.high


def test_a_rate_is_told_beside_what_the_device_can_do(store: Store, run: Run) -> None:
    gpu = read(store, a_search(store, device="NVIDIA H200", target="sm_80"))
    assert roof(gpu) == 66900.0, "by its arithmetic"
    few = replace(gpu, row=replace(gpu.row, problem={**gpu.row.problem, "flops": 1310720}))
    assert roof(few) == pytest.approx(4800.0), "by its memory, with a FLOP a byte"
    assert roof(run) is None, "of this processor there is no data sheet"
    page = report(store, [gpu.row.id])
    assert "(134.2 GFLOP/s, 0 % of the data sheet&#39;s)" in page


@pytest.mark.parametrize(
    ("device", "product"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIE 40GB"),
        ("NVIDIA A10", "A10"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_a_products_peak_is_found_by_its_name(device: str, product: str) -> None:
    peak = peak_of("sm_80", device=device)
    assert peak is not None
    assert peak.product == product


def test_every_gpu_that_is_tuned_for_has_a_peak_of_every_type_it_computes() -> None:
    for target in all_targets():
        peak = peak_of(target.name, device="")
        assert (peak is None) == (target.name == "cpu"), target.name
        if peak is not None:
            types = {"f8" if "f8" in dtype else dtype for dtype, _ in target.types}
            untold = {"i8"} if target.name == "gfx1250" else set()
            assert types <= set(peak.tflops) | untold, target.name
    for product in PEAKS:
        assert product.tflops["f32"] <= product.tflops["f16"] <= product.tflops.get("f8", math.inf)


def test_failures_are_counted_by_class_with_their_first_lines(run: Run) -> None:
    section = sections.failures(run)
    assert section is not None
    assert section.tables[0].rows == [("compile-error", "4", "9.5")]
    assert section.blocks == (("compile-error, 4 candidates", f"error: no {HOSTILE}\nsecond line"),)


def test_a_long_run_is_thinned_for_charts_and_keeps_its_fastest(store: Store) -> None:
    name = a_search(store, candidates=5_000)
    chart = charts.progress(read(store, name))
    assert chart is not None
    assert len(chart.points) < 2 * charts.POINTS
    page = report(store, [name])
    assert len(page.encode()) < 1e6
    (rest,) = [json.loads(text) for text in re.findall(r'"application/json">(\[.*?\])</script', page)]
    assert len(rest) == history.MOST - 50
    assert f"the first {history.MOST} of 5002: `autotune export --csv {name}` has all" in page


def test_a_page_of_all_runs_tells_the_newest_and_lists_them_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.report.report.FULL", 2)
    runs = [a_search(store, candidates=2) for _ in range(5)]
    part = a_search(store, candidates=2, parent=runs[0])
    page = report(store)
    assert all(page.count(run) for run in runs)
    assert headings(page).count("Candidates") == 2
    assert "3 runs without details here" in page
    assert part not in page


def test_a_run_that_goes_on_says_so(store: Store) -> None:
    run = a_search(store, finished=False)
    page = report(store, [run])
    assert "This run goes on: 38 candidates timed so far." in page
    a_search(store, parent=run)
    own = store.add_candidate(run, ordinal=50, config=Config.of({"problem": "gemm_1"}), kind="default")
    store.set_us(own, 1.0)
    page = report(store, [run])
    assert "76 candidates timed so far." in page, "its parts count"
    assert "problem=gemm_1" in page, "a problem's default has its name"


def test_a_runs_parts_are_told_after_it_the_first_in_full(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.report.report.FULL", 3)
    document = {"problems": [], "uplift": {"kept": 1}, "groups": []}
    suite = a_search(store, kind="suite", candidates=2, name="s", more=document)
    parts = [a_search(store, parent=suite, candidates=6) for _ in range(4)]
    rows = [{"problem": "p", "run": parts[0], "ratio": 1.5, "low": 1.4, "high": 1.6, "arguments": "gemm --shape 1x2x3"}]
    store.finish_run(suite, "finished", result=document | {"verdict": "win", "problems": rows})
    page = report(store, [suite])
    assert [f'id="run-{part}"' in page for part in parts] == [True, True, False, False]
    assert all(f'href="#run-{part}"' in page for part in parts)
    assert "2 runs without details here" in page
    assert "autotune gemm --shape 1x2x3 --target cpu" in page
    assert "36 asked" in page, "with their candidates all are counted"


def test_a_models_dispatches_are_told_before_and_after(store: Store) -> None:
    dispatch = {"name": "d0", "calls": 2, "share": 0.4, "us": 100.0, "state": "tuned", "applied": 2}
    dispatch |= {"speedup": {"median": 2.0, "low": 1.9, "high": 2.1}, "code": "codegen", "reason": ""}
    sides = {
        side: {"us": us, "how": "statistics", "parts": [{"kind": "gemm", "us": us}]}
        for side, us in (("before", 9e3), ("after", 3e3))
    }
    routes = [{"name": "plain", "us": 9e3}, {"name": "r", "failure": "compile-error"}]
    document = {"dispatches": [dispatch], "time": sides, "entries": {"shipped": 1, "applied": 2}, "routes": routes}
    run = read(store, a_search(store, kind="model", more=document))
    found = {section.slug: section for section in kinds.own_sections(run)}
    row = found["dispatches"].tables[0].rows[0]
    assert tuple(row[:6]) == ("d0", "2", "40", "100", "2.000 (1.900 to 2.100)", "tuned")
    assert found["time"].tables[0].rows == [("gemm", "9000.0", "3000.0")]
    assert found["routes"].tables[0].rows == [("plain", "9000.0", ""), ("r", "", "compile-error")]
    assert "routes" not in {section.slug for section in kinds.own_sections(changed(run, routes=[]))}


def test_a_suites_times_are_those_that_stand_side_by_side(store: Store) -> None:
    """As the command prints them; the first look makes the shares."""
    tuned = {"problem": "a", "default_us": 6.0, "reference_us": 10.0, "tuned_us": 8.0, "ratio": 1.25}
    run = read(store, a_search(store, kind="suite", more={"problems": [tuned, {"problem": "b", "default_us": 7.0}]}))
    (section,) = kinds.own_sections(run)
    assert section.tables[0].rows == [("a", "10", "8", "1.250"), ("b", "7", "", "")]
    (chart,) = section.charts
    assert isinstance(chart, charts.Rows)
    assert chart.line == chart.scale.at(1.0), "where the default is, there is a line"


@pytest.mark.parametrize(("kind", "slug"), [("ab", "arms"), ("buckets", "buckets")])
def test_experiments_and_families_have_their_own_table(store: Store, kind: str, slug: str) -> None:
    arms = [{"name": "A", "kind": "default", "us": 2.0, "error": 0.0, "flags": ["--x"], "command": ["cd a"]}]
    buckets = [{"bucket": "64", "low": 1, "high": 64, "verdict": "win", "baseline": {"us": 4.0}, "best": None}]
    more = {"arms": arms, "difference": 1e-7, "buckets": buckets}
    run = read(store, a_search(store, kind=kind, more=more))  # type: ignore[arg-type]
    (section,) = kinds.own_sections(run)
    assert section.slug == slug
    assert len(section.tables[0].rows) == 1


def test_a_comparison_has_a_row_for_each_library(store: Store) -> None:
    backends = [{"backend": "iree", "us": 500.0}, {"backend": "numpy", "us": 900.0}]
    more = {"problems": [{"name": "g", "backends": backends}], "notes": ["torch is left out"], "best": None}
    page = report(store, [a_search(store, kind="bench", candidates=2, more=more)])
    assert "<li>torch is left out</li>" in page
    assert ">numpy</td>" in page


def test_a_retuning_says_what_became_of_each_entry(store: Store) -> None:
    entry = {"spec": "/w/specs/a.flags", "entry": "", "problem": "gemm_1", "state": "dropped", "reason": HOSTILE}
    timed = {"us": 80.0, "baseline_us": 79.0, "before_us": 70.0, "speedup": None, "run": "r9"}
    document = {"entries": [{**entry, **timed}, {"entry": "b", "old": {"us": 7.123}, "before_us": 70.12}]}
    run = a_search(store, kind="retune", more=document)
    page = report(store, [run])
    assert "Entries" in headings(page)
    cells = ("gemm_1", "70", "80", "79", "70.12", "7.123")
    assert [f">{cell}</td>" in page for cell in cells] == [True] * 5 + [False], "before is the model's own time"
    assert '<span class="pill bad">dropped</span>' in page
    assert HOSTILE not in page
