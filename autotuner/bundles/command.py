"""`autotune bundle run`, also where no compiler and no database is installed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from autotuner.errors import OutOfTimeError, ToolMissingError, UsageError
from autotuner.system import process
from autotuner.system.progress import Reporter, Stop

if TYPE_CHECKING:
    from autotuner.bundles.there import RunContext

NEEDS = {"numpy": "numpy", "ml_dtypes": "ml_dtypes", "iree.runtime": "iree-base-runtime"}
"""Packages by their modules."""


def run(
    bundle: Path,
    output: Path | None,
    *,
    force: bool,
    device: str | None,
    seconds: float | None,
    reporter: Reporter,
    stop: Stop,
) -> tuple[Path, Timed]:
    """Runs a bundle, and returns its result and where that was written."""
    _refuse_without_runtime()
    from autotuner.bundles import archive
    from autotuner.bundles.there import RunContext
    from autotuner.system.files import claim

    if bundle.is_dir():
        raise UsageError(f"{bundle} is a folder.", remedy="Name a bundle, such as out.zip.")
    result = output or bundle.with_name(f"{bundle.stem}-result.zip")
    if result.suffix != ".zip" or result.absolute() == bundle.absolute():
        raise UsageError(f"-o {result} is not another .zip file.", remedy="Name the result, such as -o result.zip.")
    claim(result, archive.our_bundle, force=force)
    with process.temporary("autotune-bundle-", result.absolute().parent) as scratch:
        here = RunContext(scratch, reporter, stop, device, seconds)
        timed = _suite_timed(bundle, here) if archive.is_suite(bundle) else _timed(bundle, here)
        archive.write(result, timed.documents, {}, parts=timed.parts, force=force)
    return result, timed


@dataclass(frozen=True)
class Timed:
    """The documents of a bundle's result, and what is printed."""

    documents: Mapping[str, bytes]
    said: Mapping[str, Any]
    lines: Sequence[str]
    parts: tuple[Path, ...] = ()


def _timed(bundle: Path, here: RunContext) -> Timed:
    """A bundle of one problem."""
    from autotuner.bundles import archive, there
    from autotuner.bundles.documents import Manifest, judgement_to_json

    unpacked = archive.unpack(bundle, here.folder)
    manifest = Manifest.read(unpacked.document(archive.MANIFEST, file=bundle), f"{bundle}: {archive.MANIFEST}")
    missing = {key for one in manifest.entries for key in one.modules.values()} - unpacked.modules.keys()
    if missing:
        raise archive.refusal(bundle, f"{len(missing)} of its modules are missing")
    data = unpacked.documents[archive.MANIFEST]
    fit = there.fitting(manifest, file=bundle, device=here.device)
    report, reason = there.run_bundle(fit, unpacked.modules, here, bundle=archive.digest(data))
    what = f"{manifest.problem} on {manifest.target} ({report.device}): {report.judgement.verdict}"
    document = {"device": report.device, **judgement_to_json(report.judgement)}
    return Timed(
        {archive.MANIFEST: data, archive.RESULT: report.to_bytes()},
        {**document, "reason": reason, "notes": list(report.notes)},
        [what, f"  {reason}"],
    )


def _suite_timed(bundle: Path, here: RunContext) -> Timed:
    """A bundle of many problems, one after the other. One that fails is named and left out."""
    from autotuner.bundles import archive
    from autotuner.bundles.documents import SuiteManifest, SuiteProblem
    from autotuner.measure.clock import Clock

    unpacked = archive.unpack(bundle, here.folder)
    suite = SuiteManifest.read(unpacked.document(archive.SUITE, file=bundle), f"{bundle}: {archive.SUITE}")
    if len(unpacked.parts) != len(suite.problems):
        raise archive.refusal(bundle, f"it has {len(unpacked.parts)} parts for {len(suite.problems)} problems")
    done, said, failures = [], [], []
    lines: list[str] = []
    results = here.folder / "results"
    results.mkdir()

    def work(one: tuple[Path, SuiteProblem], seconds: float) -> Timed:
        part, listed = one
        here.reporter.stage(f"{suite.problems.index(listed) + 1}/{len(suite.problems)} {listed.problem}")
        budget = None if math.isinf(seconds) else seconds
        with TemporaryDirectory(dir=here.folder) as folder:  # no more than one part is unpacked at a time
            return _timed(part, replace(here, folder=Path(folder), budget=budget, part=True))

    parts = [*zip(unpacked.parts, suite.problems, strict=True)]
    for (part, listed), came_to in Clock(here.budget or math.inf).in_turn(parts, work):
        if isinstance(came_to, Timed):
            archive.write(results / part.name, came_to.documents, {})
            done.append(results / part.name)
            said.append({"problem": listed.problem, **came_to.said})
            lines += came_to.lines
            continue
        error = came_to or OutOfTimeError("ran out of time before its turn.")
        failures.append(error)
        said.append({"problem": listed.problem, "error": str(error)})
        lines.append(f"{listed.problem} failed: {error}")
    if not done:
        raise failures[0]
    return Timed(
        {archive.SUITE: unpacked.documents[archive.SUITE]}, {"suite": suite.name, "parts": said}, lines, tuple(done)
    )


def _refuse_without_runtime() -> None:
    for module, package in NEEDS.items():
        found = None
        with suppress(ImportError, ValueError):
            found = find_spec(module)
        if found is None:
            raise ToolMissingError(
                f"`bundle run` needs IREE's runtime and numpy, and {package} is not installed.",
                remedy="Install them with `pip install numpy iree-base-runtime`.",
            )
