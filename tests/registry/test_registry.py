"""A registry: lines that are read or refused, which entry stays, what is known of a shape, and what rows become."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import UsageError
from autotuner.problems import Gemm, Problem
from autotuner.registry import Registry, RegistryEntry
from autotuner.registry.taken import take
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.tuning.earlier import remembered
from autotuner.tuning.plan import Plan
from tests.support.registries import ENTRY, entry

XEON, EPYC = "Intel(R) Xeon(R) Processor @ 2.50GHz", "AMD EPYC 9654"


def gemm(shape: str, **more: Any) -> Gemm:
    return Gemm.parse(shape=shape, dtype="f32", **more)


def test_a_registry_is_written_and_read_back_a_file_a_chip_one_line_an_entry(tmp_path: Path) -> None:
    registry = Registry.of([entry(sku=XEON), entry(problem="gemm_8x8x8_f32_f32_nn", sku=XEON), entry(sku=EPYC)])
    files = registry.write(tmp_path)
    assert [file.name for file in files] == ["amd-epyc-9654.jsonl", "intel-xeon-processor-2.50ghz.jsonl"]
    assert [len(file.read_text().splitlines()) for file in files] == [1, 2]
    assert Registry.read(tmp_path) == registry
    assert Registry.read(files[0]).entries == (entry(sku=EPYC),)
    (tmp_path / "amd-epyc-9654.jsonl").write_text("someone else's")
    with pytest.raises(UsageError, match="was not written by autotune"):
        registry.write(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flags": ["--iree-hal-preprocess-executables-with=sh"]}, "known to start no program"),
        ({"low": 3.0}, "an interval in order"),
        ({"carrier": "pickle"}, "carrier is not one of"),
        ({"verdict": "inconclusive"}, "verdict is not one of"),
        ({"problem": "a\nb"}, "is not a line of text"),
        ({"config": {"kc": [1]}}, "config: kc is not"),
        ({"median": None}, "median is not"),
    ],
)
def test_a_line_that_says_what_none_of_ours_does_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RegistryEntry.from_line(json.dumps({**ENTRY, **changes}), "a.jsonl:1")


@pytest.mark.parametrize("line", ["{", "[]", "1", '{"chip": 1}', " " * (1 << 19)])
def test_what_is_no_entry_is_refused_by_its_place(line: str) -> None:
    with pytest.raises(UsageError, match=r"a\.jsonl:1"):
        RegistryEntry.from_line(line, "a.jsonl:1")


def test_a_spec_that_could_do_harm_is_refused_when_it_is_looked_at() -> None:
    spec = ("module attributes {transform.with_named_sequence} {", "util.func private @f()", "}")
    with pytest.raises(UsageError, match="the spec of gemm_512x512x512"):
        _ = entry(carrier="spec", kernel="", spec=spec).entry


def test_of_two_entries_for_the_same_the_one_timed_alone_stays_then_what_gains_more_for_certain() -> None:
    alone, better, part = entry(low=1.5), entry(low=1.9), entry(low=1.99, within="a model")
    assert Registry.of([part, better, alone]).entries == (better,)
    assert Registry.of([part]).entries == (part,)
    assert len(Registry.of([better, entry(iree="3.14.0"), entry(sku=EPYC), entry(chip="sm_80")]).entries) == 4
    (change,) = Registry.of([alone]).changes(Registry.of([better]))
    assert change == ("changed", better, alone)
    assert [what for what, *_ in Registry.of([better]).changes(Registry())] == ["gone"]


def test_only_what_was_timed_on_this_chip_with_this_iree_holds_there() -> None:
    registry = Registry.of([entry(sku=XEON), entry(sku=EPYC), entry(iree="3.12.0"), entry(chip="sm_80")])
    here = registry.on(chip="cpu", sku=XEON, iree="3.13.0")
    assert here.entries == (entry(sku=XEON),)
    assert len(registry.on(chip="cpu", sku="", iree="3.13.0").entries) == 2, "without a device any machine's"


def test_the_nearest_shape_of_a_kernel_is_known_within_reach_and_said_to_be_so() -> None:
    near, far = entry(), entry(problem="gemm_4096x512x512_f32_f32_nn")
    registry = Registry((near, far))
    exact = registry.nearest(gemm("512x512x512"), ["sgemm_c"])
    assert exact is not None
    assert (exact.entry, exact.exact) == (near, True)
    known = registry.nearest(gemm("640x512x512"), ["sgemm_c"])
    assert known is not None
    assert (known.entry, known.exact) == (near, False)
    assert "the nearest shape" in known.words
    assert "never timed" in known.entry.provenance("gemm_640x512x512_f32_f32_nn").verdict
    biased = registry.nearest(gemm("512x512x512", epilogue="bias,relu"), ["sgemm_c"])
    assert biased is not None
    assert not biased.exact
    for other in (gemm("64x64x64"), Gemm.parse(shape="512x512x512")):
        assert registry.nearest(other, ["sgemm_c"]) is None
    assert registry.nearest(gemm("512x512x512"), ["mine"]) is None


def test_what_needs_less_accuracy_than_is_accepted_is_not_taken() -> None:
    registry = Registry((entry(allow="tf32"),))
    assert registry.exact(gemm("512x512x512")) is None
    assert registry.exact(gemm("512x512x512").allowing("tf32")) is not None


def test_a_models_flags_are_those_of_the_same_file_else_of_one_with_the_same_operations() -> None:
    same = entry(op="model", problem="a", sha256="aa", ops=("conv",), route="im2col", low=1.1)
    alike = entry(op="model", problem="b", sha256="bb", ops=("conv",), route="nchwc", low=1.9)
    registry = Registry.of([same, alike])
    found = [registry.route(digest, ops) for digest, ops in (("aa", ["conv"]), ("cc", ["conv"]), ("cc", ["gemm"]))]
    assert [known and (known.entry.route, known.exact) for known in found] == [("im2col", True), ("nchwc", False), None]


# --- rows -------------------------------------------------------------------------------------------------------------


def finished(store: Store, *, kind: Any = "single", parent: str | None = None, **changes: Any) -> str:
    problem = {"op": "gemm", "name": "gemm_512x512x512_f32_f32_nn", "flops": 1, "bytes": 1}
    run = store.start_run(NewRun(kind, "k", ["autotune", "gemm"], problem, "cpu", "local-task", 0, parent))
    store.record_environment(run, {"iree": "3.13.0", "device_name": XEON, "driver": ""})
    config = {"kernel": "sgemm_c", "mr": 12, "kc": 160}
    best = {"us": 10.0, "flags": [], "route": "plain", "config": config, "kind": "microkernel", "candidate": "c0001"}
    speedup = {"median": 2.0, "low": 1.9, "high": 2.1, "confidence": 0.95}
    document = {"verdict": "win", "best": best, "baseline": {"us": 20.0}, "speedup": speedup, "carrier": "microkernel"}
    store.finish_run(run, "finished", result={**document, **changes})
    return run


def test_a_run_that_was_won_becomes_an_entry_with_its_machine_and_command(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        run = finished(store)
        (taken,), left = take(store, run)
    assert not left
    assert (taken.kernel, dict(taken.config)) == ("sgemm_c", {"mr": 12, "kc": 160})
    assert (taken.low, taken.median, taken.high, taken.us, taken.baseline_us) == (1.9, 2.0, 2.1, 10.0, 20.0)
    assert (taken.sku, taken.iree, taken.command, taken.run) == (XEON, "3.13.0", "autotune gemm", run)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "inconclusive"}, "its verdict is inconclusive"),
        ({"speedup": None}, "its verdict is win"),
        ({"carrier": "substitution"}, "fits this one program"),
        ({"kind": "ab"}, "a run of `ab`"),
    ],
)
def test_what_was_not_won_or_cannot_be_used_elsewhere_is_left_out(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        taken, (left,) = take(store, finished(store, **changes))
    assert not taken
    assert words in left.reason


def test_kernels_of_ones_own_are_left_out_and_a_suite_gives_each_of_its_problems(tmp_path: Path) -> None:
    mine = {"us": 1.0, "flags": [], "config": {"kernel": "mine"}, "candidate": "c0001"}
    with Store.open(None, workspace=tmp_path) as store:
        suite = store.start_run(NewRun("suite", "k", [], {"op": "suite", "name": "s"}, "cpu", "local-task", 0))
        finished(store, parent=suite)
        finished(store, parent=suite, best=mine)
        (taken,), (left,) = take(store, suite)
    assert taken.kernel == "sgemm_c"
    assert left.reason.startswith("mine does not come with autotune")


def test_a_search_begins_with_what_is_known(make_plan: Callable[[Problem, str], Plan]) -> None:
    plan = make_plan(gemm("64x64x128"), "plain")
    config = plan.space[len(plan.space) // 2]
    known = entry(problem=plan.problem.name, carrier="spec", kernel="", config=config.as_dict())
    here = {"sku": known.sku, "iree": known.iree}
    first, note = remembered(plan, Registry((known,)), **here)
    assert first.first == (config, *(one for one in plan.first if one != config))
    assert "gemm_64x64x128_f32_f32_nn" in note
    assert remembered(plan, Registry((entry(),)), **here) == (plan, ""), "no kernel takes part here"
    assert remembered(plan, None, **here) == (plan, "")
