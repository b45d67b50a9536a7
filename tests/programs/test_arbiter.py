"""Which outputs of a model are right: the user's, the default's, or the host's where two builds disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner import Attention, Options, Target
from autotuner.devices.device import Computed
from autotuner.errors import UsageError
from autotuner.iree.run import Invocation
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.tuner import tune_model
from autotuner.problems import Array
from autotuner.programs.arbiter import Arbiter, HostAnswer, Noise, host_flags, noise, nudged
from autotuner.programs.inputs import load_expected, wider
from autotuner.programs.model import Model
from autotuner.programs.signature import Signature
from autotuner.targets.base import decomposed_attention
from tests.support.fake_tools import BASE_MS, ONE_ROUTE, FakeTools
from tests.support.models import EFFORT, EXAMPLES, fake_tools

GOOD, BAD, OTHER = (Computed((np.array(numbers, np.float32),)) for numbers in ((1, 2, 3), (1, 2, 4), (5, 2, 3)))
RESULT = Signature("main", (), ("f16", "i32"), ((1, 4), (None,)))


class Asked:
    """A host that gives one answer, and counts how often it is asked."""

    def __init__(self, answer: Computed | str, noise: float = 0.0, share: float = 0.0) -> None:
        self.answer: HostAnswer = answer if isinstance(answer, str) else (answer, Noise(noise, share))
        self.times, self.notes = 0, list[str]()

    def __call__(self) -> HostAnswer:
        self.times += 1
        return self.answer

    def arbiter(self, **settings: Any) -> Arbiter:
        return replace(Arbiter(1e-3, None, ask=self, note=self.notes.append), **settings)


def test_as_long_as_all_agree_with_the_default_nobody_is_asked() -> None:
    host = Asked(GOOD)
    arbiter = host.arbiter()
    assert arbiter.begin(GOOD).ok
    assert arbiter.check(GOOD).ok
    assert (host.times, host.notes, arbiter.source) == (0, [], "default")


def test_the_host_says_that_the_default_is_wrong() -> None:
    host = Asked(GOOD)
    arbiter = host.arbiter()
    arbiter.begin(BAD)
    assert arbiter.check(GOOD).ok
    assert arbiter.default_is_wrong
    assert host.notes == [arbiter.words]
    assert arbiter.words.startswith("IREE's default gives wrong results for this model (relative error 0.267 against ")
    assert arbiter.check(BAD).failure == "wrong-result", "what agrees with the default is wrong as it is"
    assert arbiter.found(7.0).to_json() == {
        "source": "llvm-cpu",
        "default_is_right": False,
        "default_error": pytest.approx(0.2672612),
        "default_us": 7.0,
        "allowed_error": 1e-3,
    }


def test_where_the_default_fails_the_first_that_runs_takes_its_place() -> None:
    host = Asked(GOOD)
    arbiter = host.arbiter()
    arbiter.failed = "does not compile: error"
    assert not arbiter.begun
    assert arbiter.begin(GOOD).ok
    assert (arbiter.begun, arbiter.default_is_wrong, arbiter.source) == (True, True, "first")
    assert arbiter.against == "the first build that runs"
    assert arbiter.words == "IREE's default does not compile: error"
    assert arbiter.check(BAD).failure == "wrong-result"
    agrees = "the same program on llvm-cpu computes what the first build that runs does"
    assert host.notes == [f"{agrees}: what differs from both is wrong"]
    assert arbiter.found().to_json()["failed"] == "does not compile: error"


def test_the_host_says_that_the_default_is_right() -> None:
    host = Asked(GOOD)
    arbiter = host.arbiter()
    arbiter.begin(GOOD)
    assert arbiter.check(BAD).failure == arbiter.check(OTHER).failure == "wrong-result"
    assert not arbiter.default_is_wrong
    assert host.times == 1
    assert host.notes == [
        "the same program on llvm-cpu computes what IREE's default does: what differs from both is wrong"
    ]


def test_a_host_that_agrees_with_nobody_decides_nothing_until_something_agrees_with_it() -> None:
    host = Asked(GOOD)
    arbiter = host.arbiter()
    arbiter.begin(BAD)
    assert arbiter.check(OTHER).failure == "wrong-result"
    assert not arbiter.default_is_wrong
    assert arbiter.found().undecided == "it agrees with none of those that disagree"
    assert "--expected FILE.npy" in host.notes[-1]
    assert arbiter.check(GOOD).ok
    assert arbiter.default_is_wrong


def test_where_the_host_cannot_be_asked_the_default_stays_and_that_is_said() -> None:
    host = Asked("it does not compile there: no such dialect")
    arbiter = host.arbiter()
    arbiter.begin(BAD)
    assert arbiter.check(GOOD).failure == "wrong-result"
    assert arbiter.check(BAD).ok
    assert host.times == 1
    (said,) = host.notes
    assert "llvm-cpu could not be asked which outputs are right (it does not compile there: no such dialect)" in said
    assert "IREE's default is taken for right" in said
    assert "--expected FILE.npy" in said


def test_what_the_user_expects_is_right_and_nobody_is_asked() -> None:
    host = Asked(BAD)
    arbiter = host.arbiter(given=GOOD.arrays)
    assert arbiter.begin(BAD).failure == "wrong-result"
    assert host.notes == ["IREE's default gives wrong results for this model (relative error 0.267 against --expected)"]
    assert arbiter.check(GOOD).ok
    assert arbiter.check(OTHER).failure == "wrong-result"
    assert host.times == 0


def test_a_default_without_finite_numbers_is_refused_unless_it_is_known_what_is_right() -> None:
    nothing = Computed((np.full(3, np.nan, np.float32),))
    for unknown in (nothing, "it does not compile there"):
        with pytest.raises(UsageError, match="computes no finite numbers on these inputs"):
            Asked(unknown).arbiter().begin(nothing)
    host = Asked(GOOD).arbiter()
    assert host.begin(nothing).failure == "wrong-result"
    assert (host.check(GOOD).ok, host.found().source) == (True, "llvm-cpu")
    arbiter = Asked(Computed()).arbiter(given=GOOD.arrays)
    assert arbiter.begin(nothing).failure == "wrong-result"
    assert arbiter.found().default_error is None
    assert arbiter.words == "IREE's default gives wrong results for this model (not all of them are numbers)"


def test_a_model_that_amplifies_its_rounding_may_be_off_by_that_and_no_further() -> None:
    near = Computed((np.array((1, 2, 3.02), np.float32),))
    for noise_of_it, wrong in ((0.0, True), (2e-3, False)):
        arbiter = Asked(GOOD, noise_of_it).arbiter()
        arbiter.begin(near)
        assert arbiter.check(GOOD).ok
        assert arbiter.default_is_wrong == wrong
    wild = Asked(GOOD, 5.0).arbiter()
    wild.begin(BAD)
    assert wild.check(GOOD).ok
    assert wild.default_is_wrong, "whatever it amplifies, a quarter off is wrong"


def softmax(logits: Array, dtype: type) -> Array:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    chances: Array = (weights / weights.sum(-1, keepdims=True)).astype(dtype)
    return chances


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_softmax_is_compared_by_its_logits_and_the_result_says_so(dtype: type) -> None:
    rng = np.random.default_rng(0)
    logits = 50 * rng.normal(size=(4, 1000))
    logits[:, 7] = logits[:, 3] = 250.0  # two that are equal: rounding decides
    tied, moved = (logits + 0.1 * rng.normal(size=logits.shape) for _ in range(2))
    host = Asked("it must not be asked")
    arbiter = host.arbiter(rounding=3e-3)
    arbiter.begin(Computed((softmax(tied, dtype),)))
    assert np.abs(softmax(tied, dtype) - softmax(moved, dtype)).max() > 0.03
    assert arbiter.check(Computed((softmax(moved, dtype),))).ok
    assert arbiter.found().to_json()["compared"] == "output 0 by the logits of its softmax"
    assert host.times == 0
    for wrong in (np.roll(logits, 1, -1), -logits):
        assert arbiter.check(Computed((softmax(wrong, dtype),))).failure == "wrong-result"
    even = softmax(rng.normal(size=(4, 1000)), dtype)
    assert arbiter.check(Computed((even,))).failure == "wrong-result"


def test_an_argmax_may_differ_where_the_last_digit_of_the_inputs_decides_and_nowhere_else() -> None:
    right = np.arange(100)
    one, many = right.copy(), right.copy()
    one[3], many[:40] = 7, 7
    stable = Asked(Computed((right,))).arbiter()
    stable.begin(Computed((right,)))
    assert stable.check(Computed((one,))).failure == "wrong-result"
    for share in (0.01, 1.0):
        arbiter = Asked(Computed((right,)), 0.0, share).arbiter()
        arbiter.begin(Computed((right,)))
        assert arbiter.check(Computed((one,))).ok
        assert arbiter.check(Computed((many,))).ok == (share == 1.0)
        assert arbiter.check(Computed((right + 1,))).failure == "wrong-result"
        assert not arbiter.default_is_wrong
        assert "of its whole numbers" in arbiter.found().compared


def test_inputs_are_nudged_in_their_last_digit_and_whole_numbers_stay(tmp_path: Path) -> None:
    half, single = np.linspace(-1, 1, 50, dtype=np.float16), np.linspace(1, 2, 50, dtype=np.float32)
    half.tofile(tmp_path / "half.bin")
    np.save(tmp_path / "single.npy", single)
    whole = f"4xi32=@{tmp_path / 'half.bin'}"
    texts = (f"50xf16=@{tmp_path / 'half.bin'}", f"@{tmp_path / 'single.npy'}", whole, "2xf32=1 2")
    moved = nudged(Invocation("main", texts, ("f32",)), tmp_path)
    assert moved.inputs[2:] == texts[2:]
    first = np.fromfile(moved.inputs[0].partition("@")[2], np.float16)
    second = np.load(moved.inputs[1][1:])
    assert 0 < noise(Computed((half,)), Computed((first,))).relative < 2**-9
    assert 0 < noise(Computed((single,)), Computed((second,))).relative < 2**-22
    assert noise(Computed((np.arange(4),)), Computed((np.array((0, 1, 2, 7)),))) == Noise(0.0, 0.25)


# --- files ----------------------------------------------------------------------------------------------------------


def test_expected_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    def saved(name: str, array: Array) -> Path:
        np.save(tmp_path / name, array)
        return tmp_path / f"{name}.npy"

    first, second = saved("first", np.ones((1, 4), np.float32)), saved("second", np.ones(7, np.int32))
    found = load_expected((first, second), RESULT)
    assert [array.shape for array in found] == [(1, 4), (7,)]
    assert wider(found, RESULT), "f32 for a result in f16: the weights were not rounded"
    assert not wider((np.ones((1, 4), np.float16), found[1]), RESULT)
    assert load_expected((), RESULT) == ()
    unsigned = saved("unsigned", np.array([2**32 - 1, 1, 0], np.uint32))
    assert load_expected((first, unsigned), RESULT)[1].tolist() == [-1, 1, 0], "IREE's whole numbers have no sign"
    wrong = {
        r"main has 2 results \(1x4xf16, \?xi32\), not 1": (first,),
        "the result is 1x4xf16, and the file has 7xint32": (second, second),
        "the result is 1x4xf16, and the file has 4x1xfloat32": (saved("turned", np.ones((4, 1), np.float32)), second),
        r"the result is \?xi32, and the file has 7xfloat32": (first, saved("floats", np.ones(7, np.float32))),
        "has numbers that are not finite": (saved("nan", np.full((1, 4), np.nan, np.float32)), second),
        "is no .npy file of numbers": (Path(__file__), second),
        "No such file": (tmp_path / "none.npy", second),
    }
    for said, paths in wrong.items():
        with pytest.raises(UsageError, match=said):
            load_expected(paths, RESULT)


def test_sizes_that_only_a_run_tells_must_fit_then() -> None:
    arbiter = Asked(Computed()).arbiter(given=(np.ones(4, np.float32),))
    with pytest.raises(
        UsageError, match="--expected number 1 does not fit: the result is 3, and the file has 4xfloat32"
    ):
        arbiter.begin(GOOD)


# --- the host -------------------------------------------------------------------------------------------------------


def test_the_host_compiles_what_the_program_means_and_leaves_out_how_the_user_compiles_it() -> None:
    flags = ["--iree-opt-level=O3", "--iree-input-demote-i64-to-i32"]
    here, there = (host_flags(Target.parse(name, flags=flags)) for name in ("cpu", "sm_80"))
    assert "--iree-llvmcpu-target-cpu=generic" in here, "else it would be the default once more"
    assert "--iree-llvmcpu-target-cpu=host" in there
    for found in (here, there):
        assert "--iree-input-demote-i64-to-i32" in found
        assert "--iree-opt-level=O3" not in found
        assert set(decomposed_attention()) <= set(found)
        assert not [flag for flag in found if "cuda" in flag]


# --- IREE's own fault -----------------------------------------------------------------------------------------------

RIGHT = "*decompose-attention*"


WIDE = EXAMPLES / "wide.mlir"


def tuned(folder: Path, fake: FakeTools, **model: Any) -> ModelResult:
    """The target knows no way around it."""
    route = f"right={' '.join(decomposed_attention())}"
    wanted = Model(WIDE, routes=("plain", route), min_share=100.0, **model)
    options = Options(
        effort=EFFORT, workspace=folder / "workspace", command=("autotune", "model", "wide"), microkernels=()
    )
    return tune_model(wanted, ONE_ROUTE, options=options, tools=fake.tools)


@pytest.mark.long
def test_a_wrong_default_that_is_faster_is_not_kept_and_the_right_route_ships(tmp_path: Path) -> None:
    """What is expected comes from numpy; it is compared with the default before any route."""
    inputs = np.random.default_rng(1).normal(size=(3, 1, 8, 256)).astype(np.float32)
    for name, values in zip("qkv", inputs, strict=True):
        np.save(tmp_path / f"{name}.npy", values)
    heads = tuple(values[:, None] for values in inputs)
    np.save(tmp_path / "expected.npy", Attention.parse(shape="1x1x8x8x256", dtype="f32").reference(heads)[:, 0])
    result = tuned(
        tmp_path,
        fake_tools(tmp_path, rules=[(RIGHT, BASE_MS * 2)]),
        inputs=tuple(f"@{tmp_path / name}.npy" for name in "qkv"),
        expected=(tmp_path / "expected.npy",),
    )
    assert (result.verdict, result.ended, result.speedup) == ("win", "default-fails", None)
    told = "against --expected); route right works, and takes 2.00 of its time; nothing else that was tried is faster"
    assert told in result.reason
    assert result.flagfile is not None
    assert set(decomposed_attention()) <= {*result.flagfile.read_text().splitlines()}
    assert result.to_json()["reference"]["source"] == "expected"
    assert "use        iree-compile" in str(result)
