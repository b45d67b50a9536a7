"""The nightly file: what it may say, and one line with the place and the right key where it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.nightly.plan import read_plan

GOOD = """
name = "h200"
workspace = "work"
golden = "golden.json"

[defaults]
target = "sm_80"
budget = "30m"
flags = ["--iree-opt-level=O3"]

[[parts]]
suite = "unet"
sample = 3

[[parts]]
model = "net.mlir"
target = "cpu"
budget = "90s"
name = "net"

[compare]
threshold = 3
"""


def written(folder: Path, text: str) -> Path:
    (folder / "net.mlir").write_text("module {}")
    path = folder / "n.toml"
    path.write_text(text)
    return path


def test_a_file_says_what_is_run_how_long_and_how_it_is_judged(tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text("[]")
    plan = read_plan(written(tmp_path, GOOD))
    suite, model = plan.parts
    assert (suite.name, suite.budget) == ("unet-sm_80", 1800.0)
    assert suite.command[:2] == ("suite", "unet")
    assert {"--target=sm_80", "--budget=30m", "--flag=--iree-opt-level=O3", "--sample=3"} == set(suite.command[2:])
    assert (model.name, model.budget) == ("net", 90.0)
    assert model.command[:2] == ("model", str(tmp_path / "net.mlir"))
    assert "--target=cpu" in model.command
    assert plan.golden == str(tmp_path / "golden.json")
    assert plan.history == tmp_path / "work" / "results" / "nightly" / "h200.jsonl"
    assert plan.threshold == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "h200"', 'nam = "h200"', ": the file has no key `nam`. Did you mean `name`?"),
        ('budget = "30m"', 'bugdet = "30m"', ": [defaults] has no key `bugdet`. Did you mean `budget`?"),
        ("sample = 3", "samples = 3", ": [[parts]] number 1 has no key `samples`. Did you mean `sample`?"),
        ("sample = 3", "top = 3", "[[parts]] number 1 has no key `top`. Known are: target,"),
        ("sample = 3", 'sample = "3"', "`sample` in [[parts]] number 1 is '3'. Give a whole number."),
        ("sample = 3", "sample = true", "`sample` in [[parts]] number 1 is True. Give a whole number."),
        ("threshold = 3", "fail = true", ": [compare] has no key `fail`. Known are: threshold."),
        ("[compare]", "[alarm]", "the file has no key `alarm`."),
        ('budget = "30m"', "", "[[parts]] number 1 has no budget."),
        ('budget = "30m"', 'budget = "soon"', "'soon' is not a duration"),
        ('suite = "unet"', 'suite = "unett"', "there is no suite 'unett'"),
        ('suite = "unet"', 'suite = "--list"', "Give a name or a value, not an option."),
        ('suite = "unet"', "", "[[parts]] number 1 has neither suite nor model."),
        ('suite = "unet"', 'suite = "unet"\nmodel = "net.mlir"', "has both suite and model"),
        ('model = "net.mlir"', 'model = "nett.mlir"', "nett.mlir of [[parts]] number 2 is not there"),
        ('target = "sm_80"', 'target = "sm_8"', "sm_8"),
        ('name = "net"', 'name = "../net"', "cannot name"),
        ('name = "net"', 'name = "unet-sm_80"', "two parts are called 'unet-sm_80'"),
        ('name = "h200"', 'page = "page.txt"', "is not an .html file"),
        ('name = "h200"', 'page = "page.html"', "is outside of the workspace"),
        ('name = "h200"', 'page = "work/../../page.html"', "is outside of the workspace"),
        ('flags = ["--iree-opt-level=O3"]', "flags = [1]", "Give a list of texts."),
        ("[compare]", "[compare", "is not TOML"),
    ],
)
def test_what_is_wrong_is_one_line_with_what_was_meant(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as refused:
        read_plan(written(tmp_path, GOOD.replace(old, new, 1)))
    assert said in str(refused.value)
    assert "n.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_parts_there_is_nothing_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no parts"):
        read_plan(written(tmp_path, 'name = "x"\n'))
    with pytest.raises(UsageError, match="no parts"):
        read_plan(written(tmp_path, "parts = 3\n"))
    with pytest.raises(UsageError, match="there is no file"):
        read_plan(tmp_path / "none.toml")
