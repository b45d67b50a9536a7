"""The protocol of providers, which build kernels from source, and the cache of their objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from autotuner.errors import AutotuneError, UsageError
from autotuner.iree.compile import first_error
from autotuner.microkernels.instance import PROBLEM, Binding, Buffer, Instance, shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.problems import Operation, Problem
from autotuner.system.cache import Cache
from autotuner.system.locks import one_at_a_time
from autotuner.system.settings import cache_dir, loaded

ELEMENTS = ("f32", "f16", "bf16", "i8", "i32", "f8E4M3FN", "f8E4M3FNUZ")
SECONDS = 120.0
"""The time limit of one compile."""


class ObjectRefusalError(AutotuneError):
    """The source does not compile: for one variant, or for all of them."""

    exit_code = 3

    def __init__(self, source: Path, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"{source.name} does not compile: {first_error(stderr)}", remedy="Correct the source.")


@dataclass(frozen=True)
class Request:
    """One variant of a kernel, to be built."""

    manifest: Manifest
    problem: Problem
    chip: str
    workspace: Path
    parameters: Mapping[str, int] = field(default_factory=dict)
    features: Collection[str] = ()
    """The processor's features, by LLVM's names; without them only the architecture's baseline is used."""
    timeout: float = SECONDS

    @property
    def source(self) -> Path:
        """The source file."""
        if self.manifest.provider.source is None:
            raise ValueError(f"{self.manifest.name} is not made from a source")
        return self.manifest.provider.source

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers that the manifest's expressions may use; a refusal where the variant does not fit."""
        return self.manifest.fit(self.problem, self.chip, parameters=self.parameters, features=self.features)

    @property
    def operation(self) -> Operation:
        """The problem's operation, which the kernel computes."""
        return self.manifest.declared(self.problem, self.chip)

    def source_numbers(self) -> dict[str, int]:
        """The numbers that a source gets: the manifest's parameters and values, layout and epilogue."""
        own = {name: self.numbers[name] for name in (*self.manifest.parameters, *self.manifest.values)}
        return own | {name.lower(): value for name, value in self.operation.macros().items()}

    def macros(self) -> dict[str, int]:
        """The macros of C and C++ sources: these numbers, and for each operand its type, such as LHS_BF16."""
        bound = self.manifest.bound(self.problem, self.numbers)
        types = {
            f"{buffer.operand}_{element}": int(buffer in bound and self.element_of(buffer) == element)
            for buffer in self.manifest.buffers
            if not buffer.is_scratch
            for element in ELEMENTS
        }
        return {name.upper(): value for name, value in (self.source_numbers() | types).items()}

    def element_of(self, buffer: Buffer) -> str:
        """The element type of a buffer."""
        if buffer.element != PROBLEM:
            return buffer.element
        return self.operation.operands[self.operation.operand_names.index(buffer.operand)].element.name


@dataclass(frozen=True)
class Built:
    """A built object, and what is known only once it is built."""

    path: Path
    symbol: str
    reports: Mapping[str, int] = field(default_factory=dict)
    """Numbers that the manifest's expressions may use."""
    scratch: int = 0
    """Bytes of global memory that the compiler adds for each workgroup."""
    alignment: int = 0
    """The alignment of that memory; the kernel rounds the pointer up."""

    def called(self, instance: Instance) -> Instance:
        """The instance with the object's own symbol, and with the memory that the compiler asked for."""
        own: tuple[Binding, ...] = ()
        if self.scratch:
            x, y, z = instance.grid
            own = (Binding.scratch(self.scratch * x * y * z + self.alignment),)
        return replace(instance, symbol=self.symbol, bindings=(*instance.bindings, *own))


class Provider(Protocol):
    """Builds objects from one kind of source."""

    def require(self, chip: str) -> None:
        """Raises a ToolMissingError where its compiler for this chip is not installed."""

    def build(self, request: Request) -> Built:
        """Builds the object, once for each content; ObjectRefusalError where the source does not compile."""


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """What manifests may say of a provider, and its module, which is imported when one of its kernels is built."""

    home: str
    """`module:class`."""
    chips: tuple[str, ...]
    """Prefixes of the chips that it can build for."""
    reports: tuple[str, ...] = ()
    """Names of the numbers that are known once an object is built: manifests may use them in a launch."""

    def load(self) -> Provider:
        provider: Provider = loaded(self.home)()
        return provider


# --- Sources --------------------------------------------------------------------------------------------------------


def read_source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Check the path.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8.", remedy="Is it the source?") from error


def read_beside(source: Path, ending: str) -> dict[str, str]:
    """The files that a source may include or import, by name: those of its own folder, then the shared ones. Links that
    lead out of these folders are refused."""
    found: dict[str, str] = {}
    for home in (shipped_folder(), source.absolute().parent):
        for path in sorted(home.glob(f"*{ending}")):
            if not path.resolve().is_relative_to(home.resolve()):
                raise UsageError(f"{path} leads out of its folder.", remedy="Copy the file: it must lie there itself.")
            found[path.name] = read_source(path)
    return found


# --- Objects that are made once -------------------------------------------------------------------------------------


def kept_object(name: str, key: str, make: Callable[[Path], Mapping[str, int]]) -> tuple[Path, Mapping[str, int]]:
    """The object of this key and its report, from the cache; `make` builds it once.

    `make` writes the given file in a temporary folder, and returns the report. The object's folder is one of
    iree-compile's search paths, so no two contents share one.
    """
    cache = Cache(cache_dir(), "microkernels", name, frozenset({"report"}))
    with one_at_a_time(cache.entry(key)):
        record = cache.read(key)
        if record is None:
            with cache.scratch() as folder:
                record = {"report": dict(make(folder / name))}
                cache.store(key, record, vmfb=folder / name)
    return cache.module(key), record["report"]
