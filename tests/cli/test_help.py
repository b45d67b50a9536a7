"""Help by -h, with examples that are real; completion in three shells; a type that fits the target."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from autotuner.cli.app import app
from autotuner.cli.options import EXAMPLES, EXPERT
from autotuner.cli.request import default_dtype
from autotuner.problems.epilogue import ACTIVATIONS
from tests.support.command_line import Here
from tests.support.patience import ENOUGH

GROUPS = ("bundle", "registry", "spec")


def _by_command() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in EXAMPLES:
        words = line.split()[1:3]
        found.setdefault(" ".join(words if words[0] in GROUPS else words[:1]), []).append(line)
    return found


SHOWN = _by_command()


@pytest.mark.parametrize("command", sorted(SHOWN))
def test_help_by_its_short_name_ends_with_two_examples(command: str) -> None:
    short, long = (
        CliRunner().invoke(app, [*command.split(), word], prog_name="autotune", terminal_width=80)
        for word in ("-h", "--help")
    )
    assert (short.exit_code, short.output) == (0, long.output)
    assert len(short.output.splitlines()) <= 60, "it fits two screens"
    ends = short.output.split("Examples:\n")[1].split("\n")
    assert [line.strip() for line in ends if line.strip()] == SHOWN[command]
    assert len(SHOWN[command]) == 2


def test_what_help_has_by_name_alone_is_in_the_docs() -> None:
    options = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
    expert = options.partition("## Expert options")[2]
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        for one in command.params:
            if getattr(one, "rich_help_panel", None) == EXPERT:
                assert re.search(rf"`{max(one.opts, key=len)}[`= ]", expert), one.opts


def test_every_command_has_examples_and_these_use_options_that_it_has() -> None:
    root = typer.main.get_command(app)
    leaves: dict[str, Any] = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", None)
        leaves |= {f"{name} {part}": leaf for part, leaf in parts.items()} if parts else {name: command}
    assert leaves.keys() == SHOWN.keys()
    for name, leaf in leaves.items():
        known = {word for parameter in leaf.params for word in (*parameter.opts, *parameter.secondary_opts)}
        for line in SHOWN[name]:
            words = shlex.split(line)
            assert words[: 1 + len(name.split())] == ["autotune", *name.split()]
            assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, line


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"_AUTOTUNE_COMPLETE": "complete_bash", "COMP_WORDS": "autotune ge", "COMP_CWORD": "1"}, "gemm"),
        ({"_AUTOTUNE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "autotune gemm --sh"}, '"--shape"'),
        (
            {
                "_AUTOTUNE_COMPLETE": "complete_fish",
                "_TYPER_COMPLETE_ARGS": "autotune spec me",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            "merge",
        ),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_words_are_completed(settings: dict[str, str], found: str) -> None:
    program = "import sys; sys.argv = ['autotune']; from autotuner.__main__ import main; main()"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=ENOUGH
    )
    assert found in done.stdout, done.stderr


@pytest.mark.parametrize("group", [(), ("spec",), ("bundle",), ("registry",)])
def test_the_list_of_commands_has_whole_sentences(group: tuple[str, ...]) -> None:
    listed = CliRunner().invoke(app, [*group, "-h"], prog_name="autotune", terminal_width=80).output
    assert "..." not in listed.split("Commands:")[1]


def test_the_activations_that_help_does_not_list_are_in_the_docs_and_in_the_error(here: Here) -> None:
    options = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"`--epilogue` takes .*", options)
    refused = here("gemm", "--shape", "8x8x8", "--epilogue", "nonsense")
    assert refused.returncode == 2
    for name in ("relu", "clip=", *ACTIVATIONS):
        assert f"`{name}" in said
        assert name in refused.stderr


def test_without_a_dtype_the_targets_own_is_taken(here: Here) -> None:
    assert [default_dtype(target) for target in ("cpu", "host", "gfx942")] == ["f32", "f32", "f16"]
    done = here("gemm", "--shape", "64x64x64", "--dry-run", "--target", "gfx942")
    assert done.returncode == 0, done.stderr
    assert "gemm_64x64x64_f16_" in done.stdout


def test_what_a_newcomer_types_is_the_command_that_it_means(here: Here) -> None:
    done = here("tune", "gemm", "64x64x64", "--target", "gfx942", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "gemm_64x64x64_f16_" in done.stdout
    for words, said in ((["cnn.onnx"], "no model cnn.onnx"), (["tune", "shapes.csv"], "shapes.csv")):
        assert said in here(*words).stderr
