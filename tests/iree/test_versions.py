"""Versions of IREE as its parts spell them, the release that the project says it supports in every place, and what a
failing run says, in one line: the runtime's own first words, or the signal."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from autotuner._version import IREE, IREE_RANGE
from autotuner.errors import INSTALL_IREE
from autotuner.iree.run import failed_because, known_remedy
from autotuner.iree.versions import compiler_version, release, supported
from autotuner.system.process import Finished

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("said", "version", "known_as"),
    [
        (
            "IREE compiler version 3.13.0rc20261016 @ 89ece87b89852100c0a4ac3d515e14842d090967; LLVM version 24.0.0git",
            "3.13.0rc20261016 @ 89ece87b8985",
            "3.13.0",
        ),
        ("IREE compiler version 3.14.0.dev+5b0740c @ 5b0740c", "3.14.0.dev+5b0740c @ 5b0740c", "3.14.0.dev+5b0740c"),
        ("IREE compiler version 0.1a1", "0.1a1", "0.1a1"),
        ("LLVM version 24.0.0git", "", ""),
    ],
)
def test_a_compiler_is_known_by_what_it_says(said: str, version: str, known_as: str) -> None:
    assert compiler_version(said) == version
    assert release(version) == known_as


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [
        *(("3.12.0", False), ("3.13.1", True), ("3.13.0rc20261016 @ 89ece", True), ("3.130.0", False)),
        *(("3.14.0.dev+abc", False), ("4.13.0", False), ("0.1a1", None), ("", None)),
    ],
)
def test_releases_are_supported_by_number(version: str, is_supported: bool | None) -> None:
    assert supported(version) is is_supported


def test_the_range_is_the_same_wherever_it_stands() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {f"iree-base-compiler{IREE_RANGE}", f"iree-base-runtime{IREE_RANGE}"} <= set(wanted)
    assert IREE_RANGE in INSTALL_IREE
    major, minor = IREE.split(".")
    assert f">={IREE},<{major}.{int(minor) + 1}" == IREE_RANGE
    assert f"IREE {IREE} comes with it" in (ROOT / "README.md").read_text()


# --- a run that fails -------------------------------------------------------------------------------------------------


SCOPE = (
    "c/runtime/src/iree/modules/io/parameters/module.c:130: NOT_FOUND; no provider registered that handles scopes like "
    "'model'; while invoking native function io; \n"
    "[ 0] bytecode module@2:2372 -; creating VM context; creating run context\n"
)
MODULE = (
    "Error creating vm context with modules: c/runtime/src/iree/vm/context.c:205: NOT_FOUND; required module "
    "'io_parameters' not registered on the context; resolving module"
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            SCOPE,
            "NOT_FOUND; no provider registered that handles scopes like 'model'; while invoking native function io",
        ),
        (
            MODULE,
            "NOT_FOUND; required module 'io_parameters' not registered on the context; resolving module",
        ),
        (Finished(-11, "", "printed before", 0.1, timed_out=False).why(), "ended by SIGSEGV"),
        (Finished(0, "", "printed before", 30.2, timed_out=True).why(), "killed after 30 s"),
        ("Traceback\n  File x\nImportError: no module", "ImportError: no module"),
        ("", "no message"),
    ],
)
def test_the_reason_of_a_failed_run_is_its_first_words(said: str, reason: str) -> None:
    assert failed_because(said) == reason


def test_what_users_can_mend_has_a_remedy() -> None:
    assert known_remedy(SCOPE) == "Give --parameters model=FILE.irpa."
    assert known_remedy(MODULE) == ("Its weights are in a file of their own: give --parameters SCOPE=FILE.irpa.")
    assert known_remedy("out of memory") == ""
