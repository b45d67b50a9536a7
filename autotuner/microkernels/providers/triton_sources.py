"""The files that a kernel in Triton is made of: its own, what it imports from its folder, and what all share."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.library import shipped_folder
from autotuner.microkernels.providers.triton_compile import SOURCE
from autotuner.system.parsing import parsed

_TRITON = "triton"


def read_sources(source: Path) -> Mapping[str, bytes]:
    """By the names under which the compiling process finds them, the kernel's own first.

    What `from NAME import …` names is looked for in the kernel's folder, then among what comes with autotune, and
    nowhere else; a link that leads out of these folders is refused.
    """
    found = {SOURCE: _read(source)}
    waiting = [found[SOURCE]]
    while waiting:
        for name in _imported(waiting.pop()):
            path = _module(name, source)
            if path is not None and path.name not in found:
                found[path.name] = _read(path)
                waiting.append(found[path.name])
    return found


def _module(name: str, source: Path) -> Path | None:
    """The file of this module; None: it is another's, such as Triton's own."""
    if name == _TRITON:
        return None
    for folder in (source.parent, shipped_folder()):
        path = folder / f"{name}.py"
        if not path.is_file() or path.resolve() == source.resolve():
            continue
        if path.resolve().parent != folder.resolve():
            remedy = "Copy the file: what is run must lie there itself."
            raise UsageError(f"{path} leads out of its folder.", remedy=remedy)
        return path
    return None


def _imported(text: bytes) -> Iterator[str]:
    """Modules that stand by themselves; the source is read, not run. What is no Python is told by who needs it."""
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.isidentifier())
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and node.module.isidentifier():
            yield node.module


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
