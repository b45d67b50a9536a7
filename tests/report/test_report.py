"""The page of a run: its numbers are those of the rows, and no run is too long for it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import escape

from autotuner.devices.device import Timing
from autotuner.report import charts, kinds, reading, roofline, sections
from autotuner.report.reading import Run, read
from autotuner.report.report import report
from autotuner.space.table import Config
from autotuner.store.rows import Kind, NewRun
from autotuner.store.store import Store
from autotuner.targets.catalog import PEAKS, all_targets, peak_of
from tests.support.command_line import in_this_process
from tests.support.stored_runs import HOSTILE, RACED, a_search

SECTIONS = (*("Search", "Knobs", "Finalists", "Roofline", "Failures", "Environment", "Candidates"),)


@pytest.fixture
def run(store: Store) -> Run:
    return read(store, a_search(store))


def headings(page: str) -> list[str]:
    return re.findall(r"<h[234][^>]*>(.*?)</h[234]>", page)


def test_a_page_has_every_section_and_the_commands(store: Store, run: Run, tmp_path: Path) -> None:
    page = report(store, [run.row.id], workspace=tmp_path)
    assert [name for name in SECTIONS if name not in headings(page)] == []
    assert "autotune gemm --shape 256x256x512" in page
    assert escape("iree-compile MODEL.mlir '@/tmp/specs/a b.flags' -o MODEL.vmfb") in page


def test_stderr_of_strangers_runs_nowhere(store: Store, run: Run, tmp_path: Path) -> None:
    page = report(store, [run.row.id], workspace=tmp_path)
    assert "<img src=x" not in page
    assert "<script>document" not in page
    assert escape(f"error: no {HOSTILE}") in page


def test_names_of_strangers_are_text_wherever_they_stand(store: Store, tmp_path: Path) -> None:
    """In the problem, the target, the device, the environment, knobs, routes, files and the verdict."""
    evil = "\"'></td></script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}"
    run = store.start_run(NewRun("single", evil, [evil], {"op": evil, "name": evil}, evil, evil, 0))
    store.record_environment(run, {"iree": evil, "device_name": evil, evil: evil})
    kinds_of: tuple[Kind, ...] = ("baseline", "codegen", "codegen")
    for ordinal, kind in enumerate(kinds_of):
        config = Config.of({evil: evil, "tile": ordinal})
        row = store.add_candidate(run, ordinal=ordinal, config=config, kind=kind, route=evil, spec=evil)
        store.record_timing(row, Timing((1.0 + ordinal, 2.0)), phase="race", block=0)
    best = {"us": 1.0, "config": {evil: evil}, "route": evil, "candidate": evil}
    told = {"verdict": evil, "reason": evil, "notes": [evil], "best": best, "spec": evil}
    store.finish_run(run, "finished", result=told)
    for page in (report(store, [run], workspace=tmp_path), report(store, workspace=tmp_path)):
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "&lt;img src=x" in page
        assert "7*7" in page


def test_best_so_far_only_falls_and_ends_at_the_fastest(run: Run) -> None:
    fastest = min(candidate.us for candidate in run.timed if candidate.us)
    chart = charts.progress(run)
    assert chart is not None
    line = chart.figure["data"][-1]
    assert line["y"] == sorted(line["y"], reverse=True)
    assert line["y"][-1] == fastest


def test_a_knob_that_decides_the_time_matters_most(run: Run) -> None:
    shares = reading.varied(run)
    assert set(shares) == {"tile_m", "tile_n", "peel"}  # `route` has one value
    assert next(iter(shares)) == "tile_m"
    assert (shares["tile_m"] or 0) > 0.8 > 0.2 > (shares["peel"] or 0)
    chart = charts.importance(shares)
    assert chart is not None
    assert chart.figure["data"][0]["y"] == [*shares][::-1]


def test_a_knob_without_effect_has_no_share_by_chance(store: Store) -> None:
    run = read(store, a_search(store, candidates=400))
    candidates = [replace(c, knobs={"noise": (place * 7919) % 13}) for place, c in enumerate(run.timed) if c.tuned]
    (share,) = reading.varied(replace(run, candidates=tuple(candidates))).values()
    assert (share or 0.0) < 0.05


def test_a_candidates_difference_is_to_the_first_of_its_route(run: Run) -> None:
    first, second = run.candidates[2], run.candidates[3]
    assert run.difference(first) == "nearest to the default"
    assert run.difference(second) == "tile_m 16→4, tile_n 64→128, peel 0→1"


def test_without_a_device_what_was_proven_is_listed_by_its_estimate(run: Run) -> None:
    built = tuple(replace(c, row=replace(c.row, us=None, state="built")) for c in run.candidates if not c.failed)
    ranking = [{"candidate": name, "estimate": {"score": 3.14159}} for name in ("c0005", "c0002")]
    document = {"verdict": "compile-only", "ranking": ranking, "baseline": {"estimate": {"score": 9}}}
    untimed = replace(run, candidates=built, finalists=(), document=document)
    (table,) = sections.finalists(untimed).tables
    assert table.rows == [("default", "9.00"), ("c0005", "3.14"), ("c0002", "3.14")]


def test_what_was_proven_of_a_candidate_stands_beside_it(run: Run) -> None:
    """A configuration is found in the build; a route is flags; of what failed nothing is told as proven."""
    (table,) = sections.candidates(run).tables
    found = {row[0]: (row[5], row[6], row[7]) for row in table.rows}
    assert found["2"] == ("timed", "1×", "4.0e-07")
    assert found["1"] == ("timed", "flags only", "4.0e-07")
    assert found["9"] == ("compile-error", "", "")


def test_times_of_the_search_say_so_where_there_are_better_ones(run: Run) -> None:
    assert any("are of the search" in words for words in sections.search(run).words)
    assert sections.candidates(run).tables[0].columns[3].title == "µs in the search"
    assert sections.candidates(replace(run, finalists=())).tables[0].columns[3].title == "µs"


def test_a_finalists_interval_is_that_of_its_blocks(run: Run) -> None:
    (finalist,) = run.finalists
    assert finalist.interval is not None
    assert (finalist.phase, finalist.blocks) == ("race", RACED)
    fastest = min(candidate.us for candidate in run.timed if candidate.us)
    assert math.isclose(finalist.median, 500.0 / fastest, rel_tol=1e-9)
    assert finalist.interval.low <= finalist.median <= finalist.interval.high


def test_the_rooflines_points_are_flops_over_bytes_and_time(store: Store, run: Run) -> None:
    points = {point.what: point for point in roofline.points(run, store)}
    assert points["default"].bytes == 1310720
    assert points["default"].intensity == pytest.approx(51.2)
    assert points["default"].gflops == pytest.approx(67108864 / 500.0 / 1e3)
    assert set(points) == {"default", "stock", "best"}


def test_other_libraries_of_the_same_problem_are_beside_it(store: Store, run: Run) -> None:
    problem = {**run.row.problem, "backends": [{"backend": "iree", "us": 500.0}, {"backend": "torch", "us": 250.0}]}
    bench = a_search(store, kind="bench", candidates=2, more={"problems": [problem]})
    assert [point.what for point in roofline.points(run, store)] == ["default", "stock", "best", "torch"]
    assert [point.what for point in roofline.points(read(store, bench), store)] == ["iree", "torch"]


def test_roofs_are_those_of_the_product_that_the_device_says_it_is(store: Store) -> None:
    run = read(store, a_search(store, device="NVIDIA H200", target="sm_80"))
    assert roofline.roofs(run) == roofline.Roofs("H200", 66900.0, 4800.0)


def test_an_unknown_device_has_no_roof(store: Store, run: Run) -> None:
    device = roofline.roofs(run)
    assert device.bound(10.0) is None
    chart = roofline.roofline(roofline.points(run, store), device)
    assert chart is not None
    assert "not known" in chart.note


@pytest.mark.parametrize(
    ("device", "product"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIE 40GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA L4", "L4"),
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
            types = {dtype for pairs in target.types.values() for dtype, _ in pairs}
            assert types <= set(peak.tflops), target.name


def test_no_product_beats_its_narrower_types() -> None:
    for peak in PEAKS:
        assert peak.tflops["f32"] <= peak.tflops["f16"] <= peak.tflops.get("f8", math.inf)


def test_failures_are_counted_by_class_with_their_first_lines(run: Run) -> None:
    section = sections.failures(run)
    assert section.tables[0].rows == [("compile-error", "4", "9.5")]
    assert section.blocks == (("compile-error, 4 candidates", f"error: no {HOSTILE}\nsecond line"),)


def test_only_the_beginning_of_stderr_is_shown() -> None:
    assert sections.beginning("\n".join(map(str, range(50)))).splitlines() == [str(i) for i in range(12)]
    assert len(sections.beginning("x" * 5000)) < 1300


def test_a_long_run_is_thinned_for_charts_and_keeps_its_fastest(store: Store, tmp_path: Path) -> None:
    name = a_search(store, candidates=5_000)
    chart = charts.progress(read(store, name))
    assert chart is not None
    assert sum(len(trace["x"]) for trace in chart.figure["data"]) < 2 * charts.POINTS
    page = report(store, [name], workspace=tmp_path)
    assert len(page.encode()) < 7e6
    (rest,) = [json.loads(text) for text in re.findall(r'"application/json">(\[.*?\])</script', page)]
    assert len(rest) == sections.MOST_CANDIDATES - 50
    assert f"The fastest {sections.MOST_CANDIDATES} of 5002. All: autotune export --csv {name}" in page


def test_a_page_of_all_runs_tells_the_newest_and_lists_them_all(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.report.report.FULL", 2)
    runs = [a_search(store, candidates=2) for _ in range(5)]
    part = a_search(store, candidates=2, parent=runs[0])
    page = report(store, workspace=tmp_path)
    assert all(page.count(run) for run in runs)
    assert headings(page).count("Candidates") == 2
    assert "3 older runs without details here" in page
    assert part not in page


def test_a_run_that_goes_on_says_so(store: Store, tmp_path: Path) -> None:
    run = a_search(store, finished=False)
    page = report(store, [run], workspace=tmp_path)
    assert "This run goes on: 38 candidates timed so far." in page
    a_search(store, parent=run)
    own = store.add_candidate(run, ordinal=50, config=Config.of({"problem": "gemm_1"}), kind="default")
    store.set_us(own, 1.0)
    page = report(store, [run], workspace=tmp_path)
    assert "76 candidates timed so far." in page, "its parts count"
    assert "of gemm_1" in page, "a problem's default has its name"


def test_a_runs_parts_are_folded_below_it(store: Store, tmp_path: Path) -> None:
    document = {"problems": [], "uplift": {"kept": 1}, "groups": []}
    suite = a_search(store, kind="suite", name="s", more=document)
    part = a_search(store, parent=suite)
    rows = [{"problem": "p", "run": part, "ratio": 1.5, "low": 1.4, "high": 1.6, "arguments": "gemm --shape 1x2x3"}]
    store.finish_run(suite, "finished", result=document | {"verdict": "win", "problems": rows})
    page = report(store, [suite], workspace=tmp_path)
    assert f'id="fold-run-{part}"' in page
    assert f'href="#run-{part}"' in page
    assert "autotune gemm --shape 1x2x3 --target cpu" in page
    assert headings(page).count("Candidates") == 2


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
    assert tuple(row[:6]) == ("d0", "2", "40.0", "100", "2.000 (1.900 to 2.100)", "50")
    assert found["time"].wide[0].figure["data"][0]["x"] == [3.0, 9.0]
    assert [row[4] for row in found["routes"].tables[0].rows] == ["timed", "compile-error"]
    unrouted = replace(run, document={**run.document, "routes": []})
    assert kinds.own_sections(unrouted)[-1].words == ("No route was tried as a whole.",)


def test_a_suites_times_are_those_that_stand_side_by_side(store: Store) -> None:
    """As the command prints them; the first look makes the shares."""
    tuned = {"problem": "a", "default_us": 6.0, "reference_us": 10.0, "tuned_us": 8.0, "ratio": 1.25}
    run = read(store, a_search(store, kind="suite", more={"problems": [tuned, {"problem": "b", "default_us": 7.0}]}))
    (section,) = kinds.own_sections(run)
    assert [tuple(row[3:5]) for row in section.tables[0].rows] == [("10", "8"), ("7", "")]
    assert section.wide[0].figure["layout"]["shapes"], "where the default is, there is a line"


@pytest.mark.parametrize(("kind", "slug"), [("ab", "arms"), ("buckets", "buckets")])
def test_experiments_and_families_have_their_own_table(store: Store, kind: str, slug: str) -> None:
    arms = [{"name": "A", "kind": "default", "us": 2.0, "error": 0.0, "flags": ["--x"], "command": ["cd a"]}]
    buckets = [{"bucket": "64", "low": 1, "high": 64, "verdict": "win", "baseline": {"us": 4.0}, "best": None}]
    more = {"arms": arms, "difference": 1e-7, "buckets": buckets}
    run = read(store, a_search(store, kind=kind, more=more))  # type: ignore[arg-type]
    (section,) = kinds.own_sections(run)
    assert section.slug == slug
    assert len(section.tables[0].rows) == 1


def test_the_command_writes_the_page_and_says_where(store: Store, tmp_path: Path) -> None:
    run = a_search(store)
    done = in_this_process("report", run, "-o", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("page.html: 1 run, ")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_run_that_is_nowhere_is_refused(store: Store, tmp_path: Path) -> None:
    a_search(store)
    assert in_this_process("report", "no-such-run", cwd=tmp_path).returncode == 2


def test_of_many_parts_the_first_are_told_in_full_and_all_can_be_found(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.report.report.FULL_PARTS", 2)
    suite = a_search(store, kind="suite", candidates=2, more={"problems": []})
    parts = [a_search(store, parent=suite, candidates=6) for _ in range(4)]
    page = report(store, [suite], workspace=tmp_path)
    assert all(f'id="run-{part}"' in page for part in parts)
    for part in parts:
        details = f"The page has no room for its details: autotune report {part} shows them."
        assert (details in page) == (part in parts[2:])
    assert "36 asked" in page, "with their candidates all are counted"


def test_a_comparison_names_libraries_and_says_once_who_was_left_out(store: Store, tmp_path: Path) -> None:
    backends = [{"backend": "iree", "us": 500.0}, {"backend": "numpy", "us": 900.0}]
    left = [{"backend": "torch", "reason": "torch is not installed", "install": "pip install torch"}]
    said = "torch is left out: torch is not installed. Run: pip install torch"
    more = {"problems": [{"name": "g", "backends": backends}], "left_out": left, "notes": [said, "hot"], "best": None}
    run = a_search(store, kind="bench", candidates=2, more=more)
    candidate = store.add_candidate(run, ordinal=9, config=Config.of({}), kind="library", route="numpy")
    store.set_us(candidate, 900.0)
    page = report(store, [run], workspace=tmp_path)
    assert page.count("torch is not installed") == 1
    assert "Left out: torch: torch is not installed. Run: pip install torch" in page
    assert "<li>hot</li>" in page
    assert "not built by IREE" in page


def test_a_comparison_over_problems_says_of_how_many(store: Store) -> None:
    summary = {"numpy": {"by": "tuned", "problems": 1, "geometric_mean": 2.0}}
    run = read(store, a_search(store, kind="bench", more={"problems": [{}, {}], "summary": summary}))
    assert kinds.headline(run.document) == "tuned is 2.000 times as fast as numpy (of 1 problem), in the geometric mean"


def test_a_retuning_says_what_became_of_each_entry(store: Store, tmp_path: Path) -> None:
    entry = {"spec": "/w/specs/a.flags", "entry": "", "problem": "gemm_1", "state": "dropped", "reason": HOSTILE}
    timed = {"us": 80.0, "baseline_us": 79.0, "old": {"us": 70.0}, "speedup": None, "run": "r9"}
    document = {"entries": [{**entry, **timed}, {"entry": "b", "old": None}]}
    run = a_search(store, kind="retune", more=document)
    page = report(store, [run], workspace=tmp_path)
    assert "Entries" in headings(page)
    cells = ("a.flags: gemm_1", "70", "80", "79")
    assert all(f">{cell}</td>" in page for cell in cells)
    assert '<span class="pill bad">dropped</span>' in page
    assert HOSTILE not in page


def test_an_entry_of_a_model_has_the_models_own_time_from_before(store: Store, tmp_path: Path) -> None:
    entry = {"entry": "match_a", "problem": "a", "state": "kept", "us": 80.0, "old": {"us": 7.123}, "before_us": 70.12}
    page = report(store, [a_search(store, kind="retune", more={"entries": [entry]})], workspace=tmp_path)
    assert ">70.12</td>" in page
    assert ">7.123</td>" not in page
