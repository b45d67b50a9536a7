"""Help by -h, with examples that are real; completion in three shells; a type that fits the target."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from autotuner.cli.app import app
from autotuner.cli.commands.operations import default_dtype
from autotuner.cli.examples import EXAMPLES
from tests.support.command_line import Here, in_this_process

COMMANDS = sorted(EXAMPLES)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_by_its_short_name_ends_with_two_examples(command: str) -> None:
    short = CliRunner().invoke(app, [*command.split(), "-h"], prog_name="autotune")
    assert short.exit_code == 0, short.output
    assert short.output == CliRunner().invoke(app, [*command.split(), "--help"], prog_name="autotune").output
    ends = short.output.split("Examples:\n")[1].split("\n")
    assert [line.strip() for line in ends if line.strip()] == list(EXAMPLES[command])


def test_every_command_has_examples_and_these_use_options_that_it_has() -> None:
    root = typer.main.get_command(app)
    leaves: dict[str, Any] = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", None)
        leaves |= {f"{name} {part}": leaf for part, leaf in parts.items()} if parts else {name: command}
    assert leaves.keys() == EXAMPLES.keys()
    for name, leaf in leaves.items():
        known = {word for parameter in leaf.params for word in (*parameter.opts, *parameter.secondary_opts)}
        for line in EXAMPLES[name]:
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
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=60
    )
    assert found in done.stdout, done.stderr


def test_without_a_dtype_the_targets_own_is_taken_and_said(tmp_path: Path, here: Here) -> None:
    words = ("gemm", "--shape", "64x64x64", "--dry-run")
    for target, dtype in (("cpu", "f32"), ("gfx942", "f16")):
        assert default_dtype(target) == dtype
        done = here(*words, "--target", target)
        assert done.returncode == 0, done.stderr
        assert f"gemm_64x64x64_{dtype}_" in done.stdout
        assert f"note: --dtype {dtype}, the default on {target}" in done.stderr
    quiet = in_this_process(*words, "--target", "gfx942", "--quiet", cwd=tmp_path)
    assert "note: --dtype" not in quiet.stderr
