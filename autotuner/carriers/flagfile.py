"""Flagfiles: one flag a line, as iree-compile takes them by `@FILE`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.flags import SUBSTITUTION, SUBSTITUTIONS, TRUST, objection
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.errors import UsageError
from autotuner.system.workspace import refuse_endless
from autotuner.targets.backends import DEVICE_FLAG, LIBRARY, TUNING_SPEC, spec_flag_for

SPEC_FLAGS = (TUNING_SPEC, LIBRARY, SPEC_FLAG, SUBSTITUTION)
"""Those that name a spec."""
KERNELS = ".kernels.mlir"
"""How the name ends of a spec that calls microkernels, beside one that tunes."""
_LONGEST = 1 << 20
"""Bytes of a flagfile: a larger file is something else."""
_SPECIAL = "\\\"'"
_BLANKS = " \t\r\n"
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_PLAIN = r"""(?:[^ \t\r\n"'\\]|\\.)+"""
_WORD = re.compile(f"(?:{_QUOTED}|{_PLAIN})+", re.S)
_PIECE = re.compile(f"({_QUOTED})|({_PLAIN})", re.S)
_UNESCAPED = re.compile(r"\\(.)", re.S)


def beside(spec: Path, suffix: str) -> Path:
    """A file or folder that belongs to a spec: in the same folder, of the same stem."""
    stem = spec.name.removesuffix(KERNELS) if spec.name.endswith(KERNELS) else spec.stem
    return spec.with_name(f"{stem}{suffix}")


@dataclass(frozen=True, slots=True)
class Flagfile:
    """The flags of a file."""

    path: Path
    flags: tuple[str, ...]

    @classmethod
    def beside(cls, spec: Path, *, trust: bool = False, known: Sequence[str] = ()) -> Flagfile | None:
        """The flagfile of a spec: same folder, same stem; None when there is none."""
        path = beside(spec, ".flags")
        return cls.read(path, trust=trust, known=known) if path.is_file() else None

    @classmethod
    def read(cls, path: Path, *, trust: bool = False, known: Sequence[str] = ()) -> Flagfile:
        """The flags of a file that may come from anybody: refused when it has one that `flags` does not know.

        With `trust` the user answers for them; `known` are flags that they give themselves.
        """
        try:
            refuse_endless(path)
            with path.open("rb") as file:
                data = file.read(_LONGEST + 1)
            flags = tuple(_split(data.decode("utf-8")))
        except (UnicodeError, ValueError) as error:
            raise UsageError(f"{path} is not a flagfile: {error}.", remedy="It has one flag a line.") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
        if len(data) > _LONGEST:
            raise UsageError(f"{path} is too large to be a flagfile.", remedy="It has one flag a line.")
        if not trust and (why := objection([flag for flag in flags if flag not in known])):
            raise UsageError(f"{path}: {why}.", remedy=TRUST)
        return cls(path, flags)

    @property
    def others(self) -> tuple[str, ...]:
        """All but what names specs and objects."""
        return tuple(flag for flag in self.flags if name_of(flag) not in (*SPEC_FLAGS, SUBSTITUTIONS, OBJECTS_FLAG))

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
    def kernels(self) -> tuple[str, ...]:
        """Specs that call microkernels."""
        return tuple(file for flag, file in self.carriers if flag == SPEC_FLAG)

    @property
    def folders(self) -> tuple[str, ...]:
        """Where objects are looked for."""
        return tuple(flag.partition("=")[2] for flag in self.flags if name_of(flag) == OBJECTS_FLAG)

    @property
    def executables(self) -> tuple[str, ...]:
        """Folders of a model's configured executables."""
        return tuple(flag.partition("=")[2] for flag in self.flags if name_of(flag) == SUBSTITUTIONS)

    def found_in(self, folder: Path) -> tuple[str, ...]:
        """The flags, where files and folders that are not there are those of the same name in this one."""
        return tuple(_found(flag, folder) for flag in self.flags)

    @property
    def right_carrier(self) -> str:
        """The flag that a tuning spec needs on this file's target."""
        return tuning_flag(self.flags)


def tuning_flag(flags: Sequence[str]) -> str:
    """The flag that carries a tuning spec to the target that these flags name."""
    device = next((flag.partition("=")[2] for flag in flags if name_of(flag) == DEVICE_FLAG), "")
    return spec_flag_for(device)


def there_or_in(path: Path, folder: Path) -> Path:
    """A path as it is, or the same name in a folder where there is nothing."""
    return path if path.exists() else folder / path.name


def _found(flag: str, folder: Path) -> str:
    name, _, value = flag.partition("=")
    if name not in (*SPEC_FLAGS, SUBSTITUTIONS, OBJECTS_FLAG):
        return flag
    executable, same, file = value.partition("=") if name == SUBSTITUTION else ("", "", value)
    return flag if Path(file).exists() else f"{name}={executable}{same}{there_or_in(Path(file), folder)}"


def name_of(flag: str) -> str:
    return flag.partition("=")[0]


def flagfile_text(flags: Sequence[str]) -> str:
    """One flag a line, quoted where LLVM would split it or take a character for something else."""
    return "".join(f"{_quoted(flag)}\n" for flag in flags)


def use_line(flagfile: Path, *, program: Path | None = None) -> str:
    """The command that compiles with what a flagfile names, ready to be pasted; without a program, for any model.

    The module has the flagfile's name, which says for what and for which target.
    """
    if program is None:
        return shlex.join(["iree-compile", "MODEL.mlir", f"@{flagfile}", "-o", "MODEL.vmfb"])
    return shlex.join(["iree-compile", str(program), f"@{flagfile}", "-o", flagfile.with_suffix(".vmfb").name])


def _quoted(flag: str) -> str:
    if not any(c.isspace() or c in _SPECIAL for c in flag):
        return flag
    return '"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _split(text: str) -> Iterator[str]:
    """The words of a flagfile as LLVM splits it: both quotes are alike, and a backslash also counts inside of them."""
    at = 0
    for word in _WORD.finditer(text):
        if text[at : word.start()].strip(_BLANKS):
            break
        at = word.end()
        yield "".join(_UNESCAPED.sub(r"\1", inner[1:-1] or plain) for inner, plain in _PIECE.findall(word[0]))
    if text[at:].strip(_BLANKS):
        raise ValueError("a quotation does not end")
