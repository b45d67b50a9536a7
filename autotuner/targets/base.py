"""A target: its flags, how specs reach it, which types it computes, and where its code runs."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.errors import UsageError
from autotuner.problems import Operation, Problem
from autotuner.targets.backends import Backend
from autotuner.targets.backends.base import Types
from autotuner.targets.backends.llvm_cpu import CPU_FLAG, LLVM_CPU
from autotuner.targets.knobs import (
    JOINED,
    PLAIN,
    Knob,
    Route,
    first_routes,
    knobs_of,
    named_route,
    touching,
    without,
)
from autotuner.targets.naming import NO_DEVICE, named_devices

if TYPE_CHECKING:  # where modules only run nothing reads figures
    from autotuner.iree.figures import Figures

_TRIPLE = "--iree-llvmcpu-target-triple"
_OF_THE_HOST = (f"{CPU_FLAG}=host", f"{CPU_FLAG}-features=host")
_OTHER_NAMES = {"arm64": "aarch64", "amd64": "x86_64"}
"""Architectures whose triple may have another name than on Linux."""
_OF_THE_TARGET = (
    "--iree-hal-target-device",
    "--iree-hal-target-backends",
    "--iree-hal-local-target-device-backends",
)
"""Flags that choose the target."""
_OWN = (
    *("--compile-from", "--compile-to", "--compile-mode", "--output-format"),
    *("--iree-hal-benchmark-dispatch-repeat-count", "--help", "--version"),
)
"""Flags that autotune itself sets, differently for each compile."""


@dataclass(frozen=True)
class Target:
    """One chip, or the host's processor."""

    name: str
    """What IREE is told: a chip, or a product that it knows, whose number of units changes the code."""
    backend: Backend
    flags: tuple[str, ...]
    types: Types
    """Its (dtype, accumulator) pairs."""
    units: int
    """Compute units, multiprocessors or cores of the product, or of the chip's largest one."""
    f8: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Operations with types that cannot be tuned although the chip has them."""
    knobs: tuple[Knob, ...] = ()
    """The knobs of whole programs."""
    user_flags: tuple[str, ...] = field(default=())
    arch: str = ""
    """The chip that its code is for; empty: a processor."""
    chip: str = ""
    """The chip that runs the code (`--chip`): a newer one may take microkernels of its own. Empty: the device's, else
    the target's."""

    @classmethod
    def parse(cls, text: str, *, flags: Sequence[str] = (), chip: str | None = None) -> Target:
        """Reads a chip, a product name, or `cpu`; `chip` is the one that will run the code."""
        from autotuner.targets.catalog import find, find_chip  # the catalog is made of Targets

        target = find(text).with_flags(flags)
        return target if chip is None else replace(target, chip=find_chip(chip, target))

    def with_flags(self, flags: Sequence[str]) -> Target:
        """The target with user flags, which replace its own of the same name."""
        for flag in flags:
            if not flag.startswith("--") or flag == "--":
                raise UsageError(
                    f"--flag {flag!r} is not an iree-compile flag.", remedy="Write it as --flag=--name=value."
                )
            if flag_name(flag) in _OWN:
                raise UsageError(f"--flag {flag!r} is one that autotune sets itself.", remedy="Leave it out.")
            if flag_name(flag) in _OF_THE_TARGET and flag not in self.flags:
                raise UsageError(
                    f"--flag {flag!r} compiles for something else than --target {self.name}.",
                    remedy="Leave it out: --target says what is compiled for.",
                )
        flags = [with_absolute_files(flag) for flag in flags]
        named = {flag_name(f) for f in flags}
        own = tuple(f for f in self.flags if flag_name(f) not in named)
        # A route that sets what the user sets would overrule the user.
        return replace(self, flags=own, user_flags=tuple(flags), knobs=without(self.knobs, named))._off_the_host()

    def _off_the_host(self) -> Target:
        """Sets a generic processor for code of another architecture, unless one is named.

        The compiler would give it the features of this machine's processor and say nothing.
        """
        if not self.foreign:
            return self
        own = tuple(f"{CPU_FLAG}=generic" if flag in _OF_THE_HOST else flag for flag in self.flags)
        return replace(self, flags=own)

    @property
    def spec_flag(self) -> str:
        """The flag of a tuning spec."""
        return self.backend.spec_flag

    @property
    def device(self) -> str:
        """The device URI that is used unless the user names another."""
        return self.backend.device

    @property
    def figures(self) -> Figures:
        """How the figures of its machine code are read."""
        return self.backend.figures

    @property
    def compiles_on_device(self) -> bool:
        """Whether compiling and timing share the same cores, so that they take turns."""
        return self.backend.on_host

    @property
    def usual_dtype(self) -> str:
        """The default dtype."""
        return "f32" if self.backend.on_host else "f16"

    @property
    def kernel_chip(self) -> str:
        """The chip of its microkernels' objects."""
        return self.machine if self.backend.on_host else self.chip or self.arch

    def runs_on(self, chip: str) -> bool:
        """Whether its code runs on a chip: on the same one, or on a newer one where the driver compiles."""
        if not self.backend.assembled_on_load:
            return chip == self.arch
        numbers = [name.removeprefix(self.backend.chip_prefix) for name in (chip, self.arch)]
        return all(text.isdecimal() for text in numbers) and int(numbers[0]) >= int(numbers[1])

    @property
    def words(self) -> list[str]:
        """Its options on a command line, without flags."""
        return ["--target", self.name, *(["--chip", self.chip] if self.chip else [])]

    @property
    def machine(self) -> str:
        """The architecture of code for a processor: that of the user's triple, else this machine's."""
        triples = [flag.partition("=")[2] for flag in self.user_flags if flag_name(flag) == _TRIPLE]
        name = triples[-1].partition("-")[0] if triples else platform.machine()
        return _OTHER_NAMES.get(name, name)

    @property
    def foreign(self) -> bool:
        """Whether its code is for another architecture than this machine's."""
        return self.backend.on_host and self.machine != platform.machine()

    def choose_device(self, wanted: str | None) -> str:
        """The first device that the user names, or the default one; refused where it cannot run the code."""
        return self.choose_devices(wanted)[0]

    def choose_devices(self, wanted: str | None) -> tuple[str, ...]:
        """All devices that the user names."""
        devices = named_devices(wanted or self.device, self.backend)
        if self.foreign and devices != (NO_DEVICE,):
            raise UsageError(
                f"code for {self.machine} does not run here: this machine is {platform.machine()}.",
                remedy="Add --device none to build and prove only.",
            )
        return devices

    @property
    def compile_flags(self) -> tuple[str, ...]:
        return self.flags + self.user_flags

    def routes_for(self, problem: Problem) -> tuple[Route, ...]:
        """The routes of a single problem: the plain one, and those of its operation (on processors) or of the
        backend."""
        there = {setting.name for knob in self.knobs for setting in knob.settings}
        own = problem.routes if self.backend.on_host and isinstance(problem, Operation) else self.backend.routes
        names = own if isinstance(problem, Operation) else ()
        return (PLAIN, *(named_route(self.knobs, name) for name in names if there.issuperset(name.split(JOINED))))

    def model_routes(self, ops: Collection[str], known: Collection[type[Operation]]) -> tuple[Route, ...]:
        """The first routes of a model with these operations."""
        # A model without any operation that is known here still has fusion and the like.
        kinds = [kind for kind in known if kind.op in (ops or {"gemm"})]
        places = (self.machine, "host") if self.backend.on_host else ("gpu",)
        priors = [[route for place in places for route in kind.priors.get(place, ())] for kind in kinds if kind.priors]
        return (PLAIN, *first_routes(self.backend.settings, touching(self.knobs, ops), priors))

    def prepare(self, problem: Problem) -> Problem:
        """The problem in this target's types, or a refusal that lists what is supported."""
        if not isinstance(problem, Operation):
            return problem  # its types are a program's
        possible = self.types_of(type(problem))
        if problem.types not in possible:
            # Only a matrix product lets its user choose the accumulator.
            words = "{} (--acc {})" if problem.op == "gemm" else "{}"
            can = f"It can: {', '.join(words.format(*pair) for pair in possible) or 'nothing'}."
            raise UsageError(f"{self.name} cannot tune {problem.op} of {words.format(*problem.types)}.", remedy=can)
        return problem.with_f8(self.f8) if self.f8 else problem

    def types_of(self, kind: type[Operation]) -> Types:
        """The (dtype, accumulator) pairs of an operation on this target."""
        return tuple(pair for pair in self.types if pair in kind.pairs and pair[0] != self.lacks.get(kind.op))


def flag_name(flag: str) -> str:
    """The name of a flag, without its value."""
    return flag.split("=", 1)[0]


def decomposed_attention() -> tuple[str, ...]:
    """The flags that decompose attention into products and reductions, which is right on processors for all head
    widths."""
    return named_route(knobs_of(LLVM_CPU.settings), "decomposed").flags


# --- files that a user's flags name: compiles run in folders of their own, where a relative path leads nowhere -------


def with_absolute_files(flag: str) -> str:
    """The flag with absolute paths of existing files; a word without `/` or `.` stays as it is."""
    value = flag.partition("=")[2]
    for word in (value, value.partition("=")[2]):  # FILE, and NAME=FILE
        with suppress(OSError, ValueError):  # too long to be a path, or with a NUL in it
            if ("/" in word or "." in word) and not Path(word).is_absolute() and Path(word).exists():
                return f"{flag.removesuffix(word)}{Path(word).absolute()}"
    return flag
