"""`autotune bundle run`, also where nothing but IREE's runtime and numpy is installed: no typer, no rich."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from autotuner.errors import EXIT_INTERRUPTED, AutotuneError, ToolMissingError, UsageError
from autotuner.system.progress import Progress
from autotuner.system.text import clean

NEEDS = {"numpy": "numpy", "ml_dtypes": "ml_dtypes", "iree.runtime": "iree-base-runtime"}
"""By what is imported, what is installed."""
_ELSE = "autotune is not wholly installed here: only `python -m autotuner bundle run BUNDLE` works."
_WHOLE = "Install it with `pip install autotune-iree`."


class Told:
    """Progress as plain lines on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def stage(self, text: str) -> None:
        if not self._quiet:
            print(clean(text), file=sys.stderr, flush=True)

    def progress(self, now: Progress) -> None:
        del now

    def note(self, text: str) -> None:
        self.stage(f"note: {text}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}.", remedy="`python -m autotuner bundle run --help` says what it takes.")


def bare_main(words: Sequence[str]) -> int:
    """The command line where typer is not installed."""
    try:
        if list(words[:2]) != ["bundle", "run"]:
            raise ToolMissingError(_ELSE, remedy=_WHOLE)
        asked = _parser().parse_args(words[2:])
        run(asked.bundle, output=asked.output, device=asked.device, budget=asked.budget, as_json=asked.json,
            quiet=asked.quiet)  # fmt: skip
    except AutotuneError as error:
        print(clean(" ".join(f"autotune: {error}".split("\n"))), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m autotuner bundle run", description="Check, time and race what a bundle holds.")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="What --bundle wrote.")
    parser.add_argument("-o", "--output", type=Path, help="Where the result goes, a .zip file.")
    parser.add_argument("--device", help="IREE device URI. [default: the target's first]")
    parser.add_argument("--budget", help="At most this long: 90s, 10m, 1h30m. [default: the bundle's]")
    parser.add_argument("--json", action="store_true", help="One JSON document on stdout, all else on stderr.")
    parser.add_argument("-q", "--quiet", action="store_true", help="No progress, only the result.")
    return parser


def run(
    bundle: Path, *, output: Path | None, device: str | None, budget: str | None, as_json: bool, quiet: bool
) -> None:
    """Runs a bundle, writes its result, and says what to do with that."""
    _refuse_without_runtime()
    from autotuner.bundles import archive, there
    from autotuner.bundles.documents import Manifest, judgement_to_json
    from autotuner.system.durations import parse_budget

    result = output or bundle.with_name(f"{bundle.stem}-result.zip")
    if result.suffix != ".zip" or result.absolute() == bundle.absolute():
        raise UsageError(f"-o {result} is not another .zip file.", remedy="Name the result, such as -o result.zip.")
    seconds = parse_budget(budget) if budget is not None else None
    with there.scratch(result.absolute().parent) as folder:
        unpacked = archive.unpack(bundle, folder)
        manifest = Manifest.read(unpacked.document(archive.MANIFEST, file=bundle), f"{bundle}: {archive.MANIFEST}")
        missing = {key for one in manifest.entries for key in one.modules.values()} - unpacked.modules.keys()
        if missing:
            raise archive.refusal(bundle, f"{len(missing)} of its modules are missing")
        fit, data = there.fitting(manifest, file=bundle), unpacked.documents[archive.MANIFEST]
        told = Told(quiet=quiet)
        report = there.run_bundle(
            *(fit, dict(unpacked.modules), folder),
            bundle=archive.digest(data),
            device=device,
            budget=seconds,
            reporter=told,
        )
    archive.write(result, {archive.MANIFEST: data, archive.RESULT: report.to_bytes()}, {})
    if as_json:
        print(json.dumps({"result": str(result), "device": report.device, **judgement_to_json(report.judgement)}))
        return
    print(clean(f"{manifest.problem} on {manifest.target} ({report.device}): {report.judgement.verdict}"))
    print(clean(f"  {report.judgement.reason}"))
    print(clean(f"{result}: bring it home with `autotune bundle import {result.name}`"))


def _refuse_without_runtime() -> None:
    for module, package in NEEDS.items():
        found = None
        with suppress(ImportError, ValueError):
            found = find_spec(module)
        if found is None:
            raise ToolMissingError(
                f"`bundle run` needs IREE's runtime and numpy only, and {package} is not installed.",
                remedy="Install them with `pip install numpy iree-base-runtime`.",
            )
