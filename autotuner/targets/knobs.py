"""Knobs of whole programs: flags for convolutions, data tiling, fusion and others. A choice of settings is a route.

Each setting says where it can matter, and which others make it pointless. The order is that of usual gains: a search
turns the first knobs first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from autotuner.errors import UsageError
from autotuner.system.text import short

JOINED = "+"
"""The separator of settings in a route's name."""
_CONV, _ATTENTION = ("conv",), ("attention",)
_PRODUCTS = ("gemm", "conv", "attention")
PIPELINE = "--iree-preprocessing-pass-pipeline"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a knob, beside IREE's default."""

    name: str
    """Its name in routes' names."""
    flags: tuple[str, ...] = ()
    passes: str = ""
    """Passes that it adds to the preprocessing pipeline, which has one flag for all."""
    everywhere: bool = True
    """It is on all backends, not only on those that name it (`Backend.settings`)."""
    needs: tuple[str, ...] = ()
    """It has an effect only with one of these settings; empty: alone, too."""
    within: tuple[str, ...] = ()
    """Settings that include it."""
    reachable: bool = True
    """A tuning spec can configure the operations that it makes."""
    models: bool = True
    """It is for whole models, too: most compile with it, and not for minutes."""

    @property
    def flag_names(self) -> set[str]:
        return {flag.partition("=")[0] for flag in self.flags} | ({PIPELINE} if self.passes else set())


@dataclass(frozen=True, slots=True)
class Knob:
    """A choice for a whole program; without a setting it is IREE's default."""

    name: str
    purpose: str
    settings: tuple[Setting, ...]
    ops: tuple[str, ...] = ()
    """The operations that it affects; empty: all."""


KNOBS = (
    Knob(
        "convolutions",
        "the form that convolutions are compiled in",
        (
            Setting("im2col", ("--iree-global-opt-use-im2col-for-convs",)),
            Setting("channels-last", passes="iree-preprocessing-transpose-convolution-pipeline"),
            Setting(
                "nchwc",
                # IREE takes these one by one: a list is refused.
                (
                    "--iree-dispatch-creation-experimental-set-data-tiling-ops=matmul",
                    "--iree-dispatch-creation-experimental-set-data-tiling-ops=convolution",
                ),
                everywhere=False,
                needs=("data-tiling",),
                reachable=False,
            ),
            Setting(
                "padded",
                passes="iree-preprocessing-transpose-convolution-pipeline,iree-preprocessing-pad-to-intrinsics",
                everywhere=False,
            ),
            # No Winograd: its transforms round more than any bound here allows, and whole numbers do not come out
            # whole.
        ),
        _CONV,
    ),
    Knob(
        "attention",
        "attention as matrix products and a softmax",
        (
            Setting(
                "decomposed",
                passes="util.func(iree-linalg-ext-convert-attention-to-online-attention,"
                "iree-linalg-ext-decompose-attention)",
                everywhere=False,
            ),
        ),
        _ATTENTION,
    ),
    Knob(
        "data tiling",
        "matrix products on operands that are packed in tiles, weights already at compile time",
        (
            # This one resolves encodings after the tuning spec has run, so a spec cannot reach its mmt4d; the
            # global-optimization path makes the mmt4d before, and there a spec applies.
            Setting("data-tiling", ("--iree-opt-data-tiling",), everywhere=False, reachable=False),
            Setting("global-data-tiling", ("--iree-global-opt-data-tiling",), everywhere=False),
        ),
        _PRODUCTS,
    ),
    Knob(
        "kernels",
        "the compiler's own kernels",
        (
            Setting(
                "ukernels",
                ("--iree-llvmcpu-enable-ukernels=all",),
                everywhere=False,
                needs=("data-tiling", "global-data-tiling"),
            ),
            Setting(
                "inner-tiled",
                ("--iree-llvmcpu-enable-inner-tiled",),
                everywhere=False,
                needs=("data-tiling", "global-data-tiling"),
                models=False,
            ),
            # Where one takes a product, IREE ignores a tuning spec without a word.
            Setting("tensor-ukernels", ("--iree-rocm-enable-tensor-ukernels",), everywhere=False, reachable=False),
        ),
        _PRODUCTS,
    ),
    Knob(
        "depth",
        "products whose depth is shared by several workgroups",
        (
            Setting(
                "split-reduction",
                ("--iree-dispatch-creation-split-matmul-reduction=4",),
                everywhere=False,
                reachable=False,
            ),
        ),
        ("gemm",),
    ),
    Knob(
        "code generation",
        "how LLVM makes AMD's instructions",
        (
            Setting("plain-loads", ("--iree-rocdl-enable-buffer-instructions=false",), everywhere=False),
            Setting("global-isel", ("--iree-rocm-llvm-global-isel",), everywhere=False),
        ),
    ),
    Knob(
        "specs of IREE",
        "the tuning specs that come with IREE",
        (Setting("default-specs", ("--iree-codegen-enable-default-tuning-specs",), everywhere=False, reachable=False),),
        _PRODUCTS,
    ),
    Knob(
        "constants",
        "small constants in buffers and not in the code: CUDA loads no module with more than 64 KiB of them",
        (Setting("constants-apart", ("--iree-flow-inline-constants-max-byte-length=4",), everywhere=False),),
    ),
    Knob(
        "level",
        "how much the compiler changes the program before it forms dispatches",
        (Setting("O3", ("--iree-opt-level=O3",)),),
    ),
    Knob(
        "fusion",
        "more operations in a dispatch",
        (Setting("aggressive-fusion", ("--iree-dispatch-creation-enable-aggressive-fusion",), within=("O3",)),),
    ),
    Knob(
        "products of one operand",
        "products that read the same operand in one dispatch",
        (Setting("horizontal-fusion", ("--iree-dispatch-creation-enable-fuse-horizontal-contractions",)),),
        ("gemm", "attention"),
    ),
    Knob(
        "reshapes",
        "reshapes moved out of the way of fusion",
        (Setting("reshapes-moved", ("--iree-dispatch-creation-enable-aggressive-reshape-movement",)),),
    ),
    Knob(
        "several users",
        "an operation whose result is read twice is not fused",
        (Setting("single-use", ("--iree-dispatch-creation-fuse-multi-use=false",)),),
    ),
    Knob(
        "command buffers",
        "commands recorded anew for each call, without indirect buffers",
        (Setting("direct-commands", ("--iree-hal-indirect-command-buffers=false",)),),
    ),
)


@dataclass(frozen=True, slots=True)
class Route:
    """A set of stock flags that changes how the whole program is compiled.

    `reachable` says whether a configuration can be put on the operation on this route; where it cannot, the route
    competes with its own default only.
    """

    name: str
    flags: tuple[str, ...] = ()
    reachable: bool = True

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings in its name; a user's own route has none."""
        return () if self.name == PLAIN.name else tuple(self.name.split(JOINED))


PLAIN = Route("plain")


def knobs_of(own: Collection[str]) -> tuple[Knob, ...]:
    """The knobs of a backend with these settings of its own."""
    return _of(KNOBS, lambda setting: setting.everywhere or setting.name in own)


def without(knobs: Iterable[Knob], flags: Collection[str]) -> tuple[Knob, ...]:
    """The knobs without the settings that use one of these flags."""
    return _of(knobs, lambda setting: setting.flag_names.isdisjoint(flags))


def touching(knobs: Iterable[Knob], ops: Collection[str]) -> tuple[Knob, ...]:
    """The knobs that can matter for a model of these operations."""
    matter = (knob for knob in knobs if not knob.ops or set(knob.ops) & set(ops))
    return _of(matter, lambda setting: setting.models)


def _of(knobs: Iterable[Knob], fits: Callable[[Setting], bool]) -> tuple[Knob, ...]:
    kept = (replace(knob, settings=tuple(filter(fits, knob.settings))) for knob in knobs)
    return tuple(knob for knob in kept if knob.settings)


def sensible(knobs: Iterable[Knob], names: Collection[str]) -> tuple[str, ...]:
    """The settings of these names without pointless ones: at most one of each knob, in the knobs' order."""
    chosen: list[Setting] = []
    for knob in knobs:
        chosen += [s for s in knob.settings if s.name in names][:1]
    known = {s.name for s in chosen}
    chosen = [s for s in chosen if not s.needs or known & set(s.needs)]
    known = {s.name for s in chosen}
    return tuple(s.name for s in chosen if not known & set(s.within))


def route_of(knobs: Iterable[Knob], names: Collection[str]) -> Route:
    """The route of these settings, in the order of `sensible`."""
    by_name = {s.name: s for knob in knobs for s in knob.settings}
    chosen = [by_name[name] for name in names]
    flags = tuple(flag for s in chosen for flag in s.flags)
    for passes in (s.passes for s in chosen if s.passes):
        flags = with_passes(flags, passes)
    name = JOINED.join(names) or PLAIN.name
    return Route(name, flags, all(s.reachable for s in chosen))


def with_passes(flags: Iterable[str], passes: str) -> tuple[str, ...]:
    """The flags with these passes appended to the preprocessing pipeline, which has one flag for all."""
    pipelines = [flag for flag in flags if flag.startswith(f"{PIPELINE}=")]
    others = [flag for flag in flags if flag not in pipelines]
    before = "".join(f"{pipeline.partition('(')[2][:-1]}," for pipeline in pipelines)
    return (f"{PIPELINE}=builtin.module({before}{passes})", *others)


def named_route(knobs: tuple[Knob, ...], name: str) -> Route:
    """The route of a name such as `im2col+data-tiling`."""
    wanted = [] if name == PLAIN.name else name.split(JOINED)
    known = [s.name for knob in knobs for s in knob.settings]
    remedy = f"Known here: {PLAIN.name}, or one or more of {', '.join(known)} with + between them; or define one: "
    remedy += "--route 'NAME=--flag …'."
    if unknown := [word for word in wanted if word not in known]:
        raise UsageError(f"unknown route {short(name)}: {short(unknown[0])} is no setting.", remedy=remedy)
    names = sensible(knobs, wanted)
    if left_out := [word for word in wanted if word not in names]:
        raise UsageError(
            f"route {short(name)}: {short(left_out[0])} does nothing there.",
            remedy="It lacks what it builds on, is part of another setting, or is another value of the same knob.",
        )
    return route_of(knobs, names)


def first_routes(own: Collection[str], knobs: Sequence[Knob], priors: Sequence[Sequence[str]]) -> list[Route]:
    """The routes that a whole model is tried on first, each once: what has won before with such operations.

    Each operation of the model has a list of routes; those that stand at the same place in all lists are one route
    together. `own` are the backend's settings: a route with others is none here. A user's flags may leave fewer knobs.
    """
    known = {s.name for knob in knobs_of(own) for s in knob.settings}
    wanted = [{word for name in names for word in name.split(JOINED)} for names in zip(*priors, strict=False)]
    found = (sensible(knobs, names) for names in wanted if names <= known)
    return [route_of(knobs, names) for names in dict.fromkeys(found) if names]
