"""Flagfiles: one flag a line, as iree-compile takes them by `@FILE`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.spec import OBJECTS_FLAG, SPEC_FLAG
from autotuner.specfiles.provenance import printable
from autotuner.substitution import FLAG
from autotuner.targets import all_targets

TUNING_SPEC = "--iree-codegen-tuning-spec-path"
LIBRARY = "--iree-codegen-transform-dialect-library"
SUBSTITUTION = FLAG
SUBSTITUTIONS = "--iree-hal-substitute-executable-configurations-from"
"""Takes a folder: a model has several executables."""
SPEC_FLAGS = (TUNING_SPEC, LIBRARY, SPEC_FLAG, SUBSTITUTION)
"""Those that name a spec."""
_DEVICE = "--iree-hal-target-device"
_IGNORES_TUNING_SPECS = ("cuda", "vulkan")
"""IREE 3.13 takes `TUNING_SPEC` for these without a word and does nothing."""


@dataclass(frozen=True, slots=True)
class Flagfile:
    """The flags of a file."""

    path: Path
    flags: tuple[str, ...]

    @classmethod
    def beside(cls, spec: Path) -> Flagfile | None:
        """The flagfile of a spec: same folder, same stem; None when there is none."""
        path = spec.with_suffix(".flags")
        return cls.read(path) if path.is_file() else None

    @classmethod
    def read(cls, path: Path) -> Flagfile:
        try:
            return cls(path, tuple(shlex.split(path.read_text(encoding="utf-8"))))
        except (UnicodeError, ValueError) as error:
            raise UsageError(f"{path} is not a flagfile: {error}.", remedy="It has one flag a line.") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error

    @property
    def others(self) -> tuple[str, ...]:
        """All but what names specs and objects."""
        return tuple(flag for flag in self.flags if name_of(flag) not in (*SPEC_FLAGS, SUBSTITUTIONS, OBJECTS_FLAG))

    def trusted(self) -> tuple[str, ...]:
        """`others`, for a compile that checks the set.

        A file may come from a stranger, and iree-compile has flags that write files and start programs: only those
        are taken that say which target is meant, and the stock routes'.
        """
        names = {name_of(flag) for target in all_targets() for flag in target.flags}
        routes = {flag for target in all_targets() for route in target.routes for flag in route.flags}
        unknown = [flag for flag in self.others if name_of(flag) not in names and flag not in routes]
        if unknown:
            raise UsageError(
                f"{self.path} has flags that a check does not pass on: {printable(shlex.join(unknown))[:300]}.",
                remedy="Give --target, and by --flag those of them that you trust.",
            )
        return self.others

    @property
    def carriers(self) -> tuple[tuple[str, str], ...]:
        """(flag, file) of each spec that is named; a substitution's file comes after its executable's name."""
        found = []
        for flag in self.flags:
            name, _, value = flag.partition("=")
            if name in SPEC_FLAGS:
                found.append((name, value.partition("=")[2] if name == SUBSTITUTION else value))
        return tuple(found)

    @property
    def folders(self) -> tuple[str, ...]:
        """Where objects are looked for."""
        return tuple(flag.partition("=")[2] for flag in self.flags if name_of(flag) == OBJECTS_FLAG)

    @property
    def executables(self) -> tuple[str, ...]:
        """Folders of a model's configured executables."""
        return tuple(flag.partition("=")[2] for flag in self.flags if name_of(flag) == SUBSTITUTIONS)

    @property
    def right_carrier(self) -> str:
        """The flag that a tuning spec needs on this file's target."""
        return tuning_flag(self.flags)


def tuning_flag(flags: Sequence[str]) -> str:
    """The flag that carries a tuning spec to the target that these flags name."""
    device = next((flag.partition("=")[2] for flag in flags if name_of(flag) == _DEVICE), "")
    return LIBRARY if device.startswith(_IGNORES_TUNING_SPECS) else TUNING_SPEC


def name_of(flag: str) -> str:
    return flag.partition("=")[0]


def flagfile_text(flags: Sequence[str]) -> str:
    """iree-compile splits the lines of a flagfile at spaces unless they are quoted."""
    return "\n".join(shlex.join([flag]) for flag in flags) + "\n"
