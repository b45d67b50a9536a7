"""What a shell completes after an option or for an argument; files are left to the shell where nothing here fits.

What there is to complete is imported when it is asked for: `autotune --help` does not wait for it.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Complete = Callable[[str], list[str]]
_WORKLOADS = (".csv", ".yaml", ".yml", ".log", ".txt")
_MODELS = (".mlir", ".mlirbc", ".onnx")
_ARMS = (".mlir", ".flags")


def one_of(*words: str) -> Complete:
    """One of these words."""
    return lambda incomplete: _begin(words, incomplete)


def some_of(*words: str) -> Complete:
    """Some of these words, with commas between."""
    return lambda incomplete: _listed(words, incomplete)


def any_of(ways: Sequence[Complete]) -> Complete | None:
    """What one of these gives, each word once; None: there are none."""

    def complete(incomplete: str) -> list[str]:
        return list(dict.fromkeys(word for way in ways for word in way(incomplete)))

    return complete if ways else None


def target(incomplete: str) -> list[str]:
    """A chip or a product."""
    from autotuner.targets import PRODUCTS, all_targets

    return _begin(dict.fromkeys((*(one.name for one in all_targets()), *PRODUCTS)), incomplete)


def device(incomplete: str) -> list[str]:
    """A device's driver, which is the first device of its kind; a colon would be the end of a word in bash."""
    from autotuner.targets.backends import BACKENDS

    return _begin(("none", *(driver for one in BACKENDS for driver in one.drivers)), incomplete)


def epilogue(incomplete: str) -> list[str]:
    """What is done with the sums, with commas between."""
    from autotuner.problems.epilogue import ACTIVATIONS

    return _listed(("bias", "residual", "relu", "clip=", *ACTIVATIONS, "gated", "rms=", "layer="), incomplete)


def microkernels(incomplete: str) -> list[str]:
    """Names of microkernels, with commas between."""
    return _listed(("auto", "none", *_microkernel_names()), incomplete)


def arm(incomplete: str) -> list[str]:
    """What `autotune ab` races."""
    return _begin(("default", *_microkernel_names()), incomplete) + _files(_ARMS, incomplete)


def workload(incomplete: str) -> list[str]:
    """A suite, or a file of problems."""
    from autotuner.jobs.suite.suites import SUITES

    return _begin(SUITES, incomplete) + _files(_WORKLOADS, incomplete)


def workload_or_model(incomplete: str) -> list[str]:
    """What `autotune bench` times."""
    return workload(incomplete) + _files(_MODELS, incomplete)


def _microkernel_names() -> list[str]:
    from autotuner.microkernels.instance import search_folders
    from autotuner.microkernels.library import all_manifests

    return [one.name for one in all_manifests(search_folders(Path())).manifests]


def _begin(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _listed(words: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{word}" for word in _begin(words, last) if word not in taken]


def _files(suffixes: tuple[str, ...], incomplete: str) -> list[str]:
    """Of one folder: a shell that is offered nothing goes into others itself."""
    folder, slash, _ = incomplete.rpartition("/")
    there = Path(folder or slash or ".")
    names = sorted(file.name for file in there.glob("*") if file.suffix in suffixes) if there.is_dir() else []
    return _begin((f"{folder}{slash}{name}" for name in names), incomplete)
