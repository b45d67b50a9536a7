"""The passes from a problem's dispatches to its executables, and no other.

iree-compile compiles the host's program along with them: a fifth to a quarter of a candidate's compile, each time to
the same end. By iree-opt the executables are made alone, by IREE's own passes in IREE's own order. They are not linked
with each other, which costs a thirtieth: a problem of several dispatches is compiled by iree-compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

ONE_THREAD = "--mlir-disable-threading"
_CONFIGURE = "hal.executable(iree-hal-configure-executables)"
_DUMP = "iree-hal-dump-executable-sources{path=configurations prefix=configured}"
_TRANSLATE = "hal.executable(iree-hal-translate-all-executables)"
_HOST = "iree-hal-conversion"
"""The host's program without any cleaning up: it says how many workgroups there are of each dispatch."""
_HOIST = "hal.executable(hal.executable.variant(iree-hal-hoist-executable-objects))"
_SERIALIZE = "iree-hal-serialize-all-executables"


def executables_command(
    iree_opt: Path, program: str, flags: Iterable[str], *, dumps: Sequence[str], output: str
) -> tuple[str, ...]:
    """The exact words, for a program whose dispatches are not begun."""
    pipeline = f"--pass-pipeline={_pipeline(dumps)}"
    return (str(iree_opt), program, pipeline, *flags, ONE_THREAD, "--emit-bytecode", "-o", output)


def _pipeline(dumps: Sequence[str]) -> str:
    """What `--pass-pipeline=` is given, with the configurations and the binaries dumped where that is wanted."""
    dumped = (_DUMP,) if "configurations" in dumps else ()
    options = "{dump-binaries-path=binaries}" if "binaries" in dumps else ""
    steps = (_CONFIGURE, *dumped, _TRANSLATE, _HOST, _HOIST, f"hal.executable({_SERIALIZE}{options})")
    return f"builtin.module({','.join(steps)})"
