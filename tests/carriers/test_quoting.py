"""Flagfiles are read by us as iree-compile reads them, whatever characters a path has."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from autotuner.carriers.flagfile import Flagfile, flagfile_text, use_line
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.system import process

AWKWARD = [
    "plain",
    "two words",
    "back\\slash",
    "a\\ b",
    "it's",
    'say "so"',
    "both ' and \" and \\",
    "ends in \\",
    "été/文件",
    "tab\tand\u00a0wide space",
    "$HOME;`id`#no comment",
]
WEIRD = "a b\\c\"d'é, x"
"""A folder's name."""


@pytest.mark.parametrize("value", AWKWARD)
def test_what_is_written_is_read_back(value: str, tmp_path: Path) -> None:
    flags = (f"--first={value}", "--second=1", value, f"--last={value}")
    file = tmp_path / "x.flags"
    file.write_text(flagfile_text(flags), encoding="utf-8")
    assert Flagfile.read(file, trust=True).flags == flags


@pytest.mark.parametrize("value", AWKWARD)
def test_iree_compile_reads_a_flagfile_as_we_do(value: str, tmp_path: Path) -> None:
    """It names the first flag that it does not know."""
    file = tmp_path / "x.flags"
    file.write_text(flagfile_text([f"--no-such-flag={value}"]), encoding="utf-8")
    done = process.run([Tools.find().iree_compile, "-", f"@{file}"], timeout=60)
    assert f"Unknown command line argument '--no-such-flag={value}'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--a=1 --b=2\n--c=3", ("--a=1", "--b=2", "--c=3")),
        ("'--a=b c'\n", ("--a=b c",)),
        (r"'--a=b\c' --d=\'", ("--a=bc", "--d='")),
        (r'--a="x \" y"z', ('--a=x " yz',)),
    ],
)
def test_every_form_that_llvm_takes_is_read(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "x.flags").write_text(text)
    assert Flagfile.read(tmp_path / "x.flags", trust=True).flags == words


def test_a_quote_that_is_not_closed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.flags").write_text("--a='b\n")
    with pytest.raises(UsageError, match="is not a flagfile: a quotation does not end"):
        Flagfile.read(tmp_path / "x.flags")


def test_a_line_to_paste_is_quoted_for_the_shell() -> None:
    path = Path("/tmp") / WEIRD / "x.flags"
    words = shlex.split(use_line(path))
    assert words == ["iree-compile", "MODEL.mlir", f"@{path}", "-o", "MODEL.vmfb"]
    assert use_line(Path("specs/x.flags")) == "iree-compile MODEL.mlir @specs/x.flags -o MODEL.vmfb"
