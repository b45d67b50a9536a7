"""What a failing run says, in one line: the runtime's own first words, or the signal."""

from __future__ import annotations

import pytest

from autotuner.iree.run import failed_because, known_remedy
from autotuner.system.process import Finished

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
