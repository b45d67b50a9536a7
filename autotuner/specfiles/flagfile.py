"""Reads flagfiles, which carriers write.

A flagfile may come from anybody, and iree-compile has flags that start programs, load libraries and write files. So
only flags that are known to be harmless are taken (`RULES`): those that this project writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.carriers.flagfile import KERNELS, SUBSTITUTIONS, quoted
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.render import SUBSTITUTION
from autotuner.errors import UsageError
from autotuner.system.text import short
from autotuner.system.workspace import refuse_endless
from autotuner.targets.backends import BACKENDS, DEVICE_FLAG, LIBRARY, TUNING_SPEC, spec_flag_for

TRUST = "Take it out, give it yourself by --flag, or give --trust if you know what it does."

_ANCHORS = ("builtin.module", "util.func", "func.func")
PASSES = (
    "iree-preprocessing-transpose-convolution-pipeline",
    "iree-preprocessing-pad-to-intrinsics",
    "iree-global-opt-detach-elementwise-from-named-ops",
    "iree-linalg-ext-convert-conv2d-to-winograd",
    "iree-linalg-ext-convert-attention-to-online-attention",
    "iree-linalg-ext-decompose-attention",
)
"""Allowed passes of a preprocessing pipeline."""
_WITH_OPTIONS = ("iree-linalg-ext-convert-conv2d-to-winograd{replace-all-convs=true}",)


@dataclass(frozen=True, slots=True)
class Rule:
    """The allowed values of one flag."""

    fits: Callable[[str | None], bool]
    """Checks the value; None: the flag has no `=`."""
    says: str
    repeats: bool = False
    """The flag may be repeated."""


def _matches(pattern: str, says: str) -> Rule:
    compiled = re.compile(pattern)
    return Rule(lambda value: value is not None and compiled.fullmatch(value) is not None, says)


def _one_of(*values: str) -> Rule:
    return Rule(lambda value: value in values, f"one of {', '.join(values)}")


def _names_mlir(value: str | None) -> bool:
    """Whether the compiler reads the file as MLIR: other suffixes are taken for native code."""
    return value is not None and value.endswith(".mlir")


def _substitutes(value: str | None) -> bool:
    name, _, file = (value or "").partition("=")
    return re.fullmatch(r"[A-Za-z0-9_.$-]{1,500}", name) is not None and _names_mlir(file)


def _pipeline(value: str | None) -> bool:
    """Whether a pipeline, `anchor(pass,anchor(pass{option}))`, has known words only; their order does no harm."""
    words = [word for word in re.split(r"[(),]", value or "") if word]
    balanced = value is not None and value.count("(") == value.count(")")
    passes = [word for word in words if word not in _ANCHORS]
    return balanced and bool(passes) and set(passes) <= {*PASSES, *_WITH_OPTIONS}


_SWITCH = Rule(lambda value: value in (None, "", "true", "false", "1", "0"), "true or false")
_MLIR = Rule(_names_mlir, "a file that ends in .mlir")
_FOLDER = Rule(lambda value: bool(value), "a folder")
_CHIP = _matches(r"[a-z0-9_:+-]{1,80}", "a chip's name")

RULES: dict[str, Rule] = {
    # The target.
    DEVICE_FLAG: _one_of(*(backend.hal_device for backend in BACKENDS)),
    "--iree-hal-local-target-device-backends": _one_of("llvm-cpu"),
    "--iree-llvmcpu-target-cpu": _matches(r"[A-Za-z0-9._+-]{1,80}", "a processor's name"),
    "--iree-llvmcpu-target-cpu-features": _matches(r"[A-Za-z0-9._+,-]{0,20000}", "a list of features"),
    "--iree-llvmcpu-target-triple": _matches(r"[A-Za-z0-9._-]{1,80}", "a triple"),
    **{backend.chip_flag: _CHIP for backend in BACKENDS if not backend.on_host},
    # Routes.
    "--iree-opt-data-tiling": _SWITCH,
    "--iree-opt-level": _one_of("O0", "O1", "O2", "O3"),
    "--iree-global-opt-data-tiling": _SWITCH,
    "--iree-global-opt-use-im2col-for-convs": _SWITCH,
    "--iree-llvmcpu-enable-inner-tiled": _SWITCH,
    "--iree-llvmcpu-enable-ukernels": _matches(r"[a-z0-9_,+-]{1,200}", "all, none, default or a list of names"),
    "--iree-opt-aggressively-propagate-transposes": _SWITCH,
    "--iree-opt-outer-dim-concat": _SWITCH,
    "--iree-global-opt-propagate-transposes-through-conv": _SWITCH,
    "--iree-dispatch-creation-enable-aggressive-fusion": _SWITCH,
    "--iree-dispatch-creation-enable-aggressive-reshape-movement": _SWITCH,
    "--iree-dispatch-creation-enable-fuse-horizontal-contractions": _SWITCH,
    "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops": _SWITCH,
    "--iree-dispatch-creation-enable-split-reduction": _SWITCH,
    "--iree-dispatch-creation-experimental-set-data-tiling-ops": replace(
        _one_of("matmul", "scaled_matmul", "convolution"), repeats=True
    ),
    "--iree-dispatch-creation-fuse-multi-use": _SWITCH,
    "--iree-dispatch-creation-split-matmul-reduction": _matches(r"\d{1,6}", "a number"),
    "--iree-flow-inline-constants-max-byte-length": _matches(r"\d{1,6}", "a number"),
    "--iree-hal-indirect-command-buffers": _SWITCH,
    "--iree-codegen-enable-default-tuning-specs": _SWITCH,
    "--iree-rocm-enable-tensor-ukernels": _SWITCH,
    "--iree-rocm-llvm-global-isel": _SWITCH,
    "--iree-rocdl-enable-buffer-instructions": _SWITCH,
    "--iree-preprocessing-pass-pipeline": Rule(_pipeline, f"a pipeline of {', '.join(PASSES)}"),
    # Carriers. What they name is looked into as well: see `vetting`.
    TUNING_SPEC: _MLIR,
    # IREE takes what follows an @ for the name of a sequence, and what stands before it for the file.
    LIBRARY: Rule(
        lambda value: _names_mlir(value) and "@" not in (value or ""), "a file that ends in .mlir, without @"
    ),
    SPEC_FLAG: _MLIR,
    SUBSTITUTION: Rule(_substitutes, "NAME=FILE.mlir", repeats=True),
    SUBSTITUTIONS: _FOLDER,
    OBJECTS_FLAG: Rule(lambda value: bool(value), "a folder", repeats=True),
}


def objection(flags: Sequence[str]) -> str:
    """Why the first forbidden flag is refused; empty: all are allowed."""
    seen: set[str] = set()
    for flag in flags:
        name, equals, value = flag.partition("=")
        rule = RULES.get(name)
        if not flag.isprintable():
            return f"{short(name)} has control characters in it"
        if not flag.startswith("--") or flag == "--":
            return f"{short(flag)} is no --flag=value"
        if rule is None:
            return f"{short(name)} is not one of the flags that are known to start no program and to write no file"
        if not rule.fits(value if equals else None):
            return f"{name} may be {rule.says}, not {short(value)}"
        if name in seen and not rule.repeats:
            return f"{name} stands in it twice"
        seen.add(name)
    return ""


SPEC_FLAGS = (TUNING_SPEC, LIBRARY, SPEC_FLAG, SUBSTITUTION)
"""Flags that name a spec."""
_NAMING = (*SPEC_FLAGS, SUBSTITUTIONS, OBJECTS_FLAG)
_UNESCAPED = re.compile(r"\\(.)", re.S)


def beside(spec: Path, suffix: str) -> Path:
    """The file or folder of a spec's stem with another suffix."""
    stem = spec.name.removesuffix(KERNELS) if spec.name.endswith(KERNELS) else spec.stem
    return spec.with_name(f"{stem}{suffix}")


@dataclass(frozen=True, slots=True)
class Flagfile:
    """The flags of a file."""

    path: Path
    flags: tuple[str, ...]

    @classmethod
    def beside(cls, spec: Path, *, trust: bool = False, known: Sequence[str] = ()) -> Flagfile | None:
        """The flagfile of a spec, in the same folder with the same stem; None: there is none."""
        path = beside(spec, ".flags")
        return cls.read(path, trust=trust, known=known) if path.is_file() else None

    @classmethod
    def read(cls, path: Path, *, trust: bool = False, known: Sequence[str] = ()) -> Flagfile:
        """Reads a flagfile of anybody's, and refuses flags that are not known to be harmless.

        With `trust` the user answers for them; `known` are flags that they give themselves.
        """
        try:
            refuse_endless(path, "flagfile")
            flags = tuple(_split(path.read_text(encoding="utf-8")))
        except (UnicodeError, ValueError) as error:
            raise UsageError(f"{path} is not a flagfile: {error}.", remedy="It has one flag a line.") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Check the path.") from error
        if not trust and (why := objection([flag for flag in flags if flag not in known])):
            raise UsageError(f"{path}: {why}.", remedy=TRUST)
        return cls(path, flags)

    @property
    def others(self) -> tuple[str, ...]:
        """The flags that name neither specs nor objects."""
        return tuple(flag for flag in self.flags if name_of(flag) not in _NAMING)

    @property
    def carriers(self) -> tuple[tuple[str, str], ...]:
        """(flag, file) of each spec that is named."""
        return tuple((name_of(flag), split_file(flag)[1]) for flag in self.flags if name_of(flag) in SPEC_FLAGS)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Specs that call microkernels."""
        return self._named(SPEC_FLAG)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of objects."""
        return self._named(OBJECTS_FLAG)

    @property
    def executables(self) -> tuple[str, ...]:
        """Folders of a model's configured executables."""
        return self._named(SUBSTITUTIONS)

    def _named(self, name: str) -> tuple[str, ...]:
        return tuple(split_file(flag)[1] for flag in self.flags if name_of(flag) == name)

    def found_in(self, folder: Path) -> Flagfile:
        """The flags with absolute paths; missing files are looked for by name in this folder."""
        return replace(self, flags=tuple(_found(flag, folder) for flag in self.flags))


def tuning_flag(flags: Sequence[str]) -> str:
    """The flag that carries a tuning spec to the target that these flags name."""
    device = next((flag.partition("=")[2] for flag in flags if name_of(flag) == DEVICE_FLAG), "")
    return spec_flag_for(device)


def _found(flag: str, folder: Path) -> str:
    head, file = split_file(flag)
    path = Path(file) if Path(file).exists() else folder / Path(file).name
    return f"{head}{path.absolute()}" if file else flag


def split_file(flag: str) -> tuple[str, str]:
    """A flag up to its file or folder, and that; empty where it names none."""
    name, _, value = flag.partition("=")
    file = "" if name not in _NAMING else value.partition("=")[2] if name == SUBSTITUTION else value
    return flag.removesuffix(file), file


def name_of(flag: str) -> str:
    return flag.partition("=")[0]


def _split(text: str) -> Iterator[str]:
    """The flags of a file in the form of `quoted`; others are refused, as LLVM might read them differently."""
    for line in filter(None, (line.strip(" \t\r") for line in text.split("\n"))):
        flag = _UNESCAPED.sub(r"\1", line[1:-1]) if line.startswith('"') else line
        if quoted(flag) != line:
            raise ValueError(f"{short(line)} is not one flag, quoted as a whole where it has blanks or quotes in it")
        yield flag
