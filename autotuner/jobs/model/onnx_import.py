"""ONNX files become MLIR by IREE's own importer, each once."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree import versions
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest

_IMPORT_SECONDS = 600.0
_FORM = "2"
"""What is done to a model before its import: another form is another import."""


def import_onnx(path: Path, folder: Path, *, name: str) -> Path:
    """The model as MLIR, imported in a process of its own; the same model with the same weights is imported once."""
    if find_spec("onnx") is None:
        raise EnvironmentFailure(f"{path.name} needs the onnx package.", remedy="pip install 'autotune-iree[onnx]'")
    folder.mkdir(parents=True, exist_ok=True)
    # Another importer may write something else, and what it writes may be for its own compiler only.
    key = Cache.key([_FORM, known_digest(path), versions.bindings_version(), versions.package("onnx")])
    imported = folder / f"{name}-{key[:12]}.mlir"
    if imported.is_file() and _unchanged(imported.with_suffix(".json"), path.parent):
        return imported
    part = imported.with_suffix(".part.mlir")
    done = process.run([sys.executable, "-m", "autotuner.jobs.model.onnx_worker", path, part], timeout=_IMPORT_SECONDS)
    if not done.ok:
        part.unlink(missing_ok=True)
        raise UsageError(
            f"IREE's importer does not take {path}: {process.last_line(done.why())}.",
            remedy="Mend what it names, or export the model again.",
        )
    part.with_suffix(".json").replace(imported.with_suffix(".json"))
    part.replace(imported)
    return imported


def _unchanged(record: Path, folder: Path) -> bool:
    """Are the files beside the model, which hold its weights, what they were when it was imported?"""
    try:
        return all(known_digest(folder / name) == digest for name, digest in json.loads(record.read_text()).items())
    except (OSError, ValueError, AttributeError):
        return False
