"""Convolutions that stay out of im2col: each is timed alone in both forms, and a spec says which go as tiles.

im2col takes named operations only. What the spec makes generic stays a convolution, and data tiling packs its operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.carriers.outputs import WRITTEN
from autotuner.carriers.render import STAYS, pieces_mlir
from autotuner.errors import OutOfTimeError
from autotuner.iree.mlir import parse, walk
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import alone_timer
from autotuner.jobs.model.routes import LATE, RouteRace
from autotuner.problems import Conv
from autotuner.system import process
from autotuner.targets import Route
from autotuner.targets.base import flag_name
from autotuner.targets.knobs import PIPELINE, Knob, named_route, route_of, sensible, with_passes

NAME = "pieces"
_GAIN = 0.1
"""A convolution changes its form where that saves so much of its time: alone it is not timed as the model calls it."""
_IM2COL, _TILES, _TILED = "im2col", "nchwc", "data-tiling"
_LAYOUTS = {"linalg.conv_2d_nchw_fchw": "nchw-fchw", "linalg.conv_2d_nhwc_hwcf": "nhwc-hwcf"}
_ORDERS = {"nchw-fchw": ("nchw", "fcyx"), "nhwc-hwcf": ("nhwc", "yxcf")}
_DETACHED = "util.func(iree-global-opt-detach-elementwise-from-named-ops)"
"""Takes a bias out of what a convolution adds to, as IREE does for named ones: with it no tiles are made."""
_DTYPE = "f32"
"""What IREE has tiles for."""


@dataclass(frozen=True)
class Piece:
    """A convolution of the program, and how often it is there."""

    op: str
    types: tuple[str, ...]
    """Of image, filter and result."""
    conv: Conv
    calls: int = 1


def read_pieces(text: str) -> tuple[Piece, ...]:
    """The convolutions of a preprocessed program that both forms are known for; those alike once."""
    found: dict[Piece, int] = {}
    with ir.Context() as context:
        for op in walk(parse(text, context).operation):
            piece = _piece(op) if op.name in _LAYOUTS else None
            if piece is not None:
                found[piece] = found.get(piece, 0) + 1
    return tuple(replace(piece, calls=calls) for piece, calls in found.items())


def _piece(op: Any) -> Piece | None:
    shapes = [ir.ShapedType(value.type) for value in op.operands]
    if not all(s.has_static_shape and str(s.element_type) == _DTYPE for s in shapes):
        return None
    image, weights = _ORDERS[_LAYOUTS[op.name]]
    sizes = dict(zip(image, shapes[0].shape, strict=True)) | dict(zip(weights, shapes[1].shape, strict=True))
    strides, dilations = (tuple(map(int, ir.DenseIntElementsAttr(op.attributes[n]))) for n in ("strides", "dilations"))
    if set(dilations) != {1}:
        return None
    n, h, w, c, y, x, f = (sizes[name] for name in "nhwcyxf")
    conv = Conv(
        *(n, h, w, c, y, x, f),
        stride=(strides[0], strides[-1]),
        dtype=_DTYPE,
        layout=_LAYOUTS[op.name],
    )
    return Piece(op.name, tuple(str(value.type) for value in op.operands), conv)


def staying(pieces: Sequence[Piece], im2col: Mapping[Conv, float], tiles: Mapping[Conv, float]) -> tuple[Piece, ...]:
    """Those that are faster as tiles, or work only so."""
    known = [p for p in pieces if p.conv in tiles]
    return tuple(p for p in known if tiles[p.conv] < (1 - _GAIN) * im2col.get(p.conv, math.inf))


@dataclass(frozen=True)
class PieceRoute:
    """Makes the route on which some convolutions go im2col and the others as tiles."""

    context: Context
    race: RouteRace
    knobs: Sequence[Knob]
    """Those that are turned for this model."""

    @property
    def path(self) -> Path:
        return self.context.files.spec.with_suffix(f".{NAME}.mlir")

    def try_it(self) -> None:
        """Where the best route so far has all of them im2col or as tiles, and some are faster in the other form."""
        base = self._base()
        if base is None:
            return
        with suppress(OutOfTimeError), process.until(self.context.clock.at(LATE * self.context.routes_end)):
            self._divide(base)

    def _divide(self, base: Route) -> None:
        context = self.context
        context.stage("timing each convolution alone, by im2col and as tiles")
        plain, timeout = context.target.compile_flags, context.compile_timeout
        pieces = read_pieces(context.builder.preprocessed(plain, timeout=timeout))
        knobs = tuple(self.knobs)
        tiled = route_of(knobs, sensible(knobs, {*base.settings, _TILES} - {_IM2COL}))
        stay = staying(pieces, self._timed(pieces, base), self._timed(pieces, tiled))
        if not stay or len(stay) == len(pieces):
            context.note(f"{len(stay)} of {len(pieces)} different convolutions are faster as tiles: no route of pieces")
            return
        tiles = named_route(knobs, f"{_TILES}+{_TILED}").flags
        flags = with_passes(dict.fromkeys([*base.flags, *tiles]), _DETACHED)
        route = Route(f"{base.name}+{NAME}", (*flags, f"{SPEC_FLAG}={self.path}"), reachable=False)
        context.files.write(self.path, pieces_mlir(stay, header=[*self._header(stay)]))
        if self._proven(route, stay):
            self.race.search.queue.insert(0, route)

    def keep_if_shipped(self, flagfile: Path | None) -> None:
        """What no flagfile names is not left behind."""
        named = flagfile is not None and str(self.path) in flagfile.read_text()
        if not named and self.context.files.owns(self.path):
            self.path.unlink()

    def _base(self) -> Route | None:
        """The best route with im2col, if it can be divided. Microkernels need the same flag."""
        context = self.context
        if not self.race.right:
            return None
        best = self.race.right[0].route
        known = {setting.name for knob in self.knobs for setting in knob.settings}
        taken = {flag_name(flag) for flag in context.target.user_flags} & {PIPELINE, SPEC_FLAG}
        if (
            taken
            or context.options.microkernels
            or not self.race.fits(context.routes_end)
            or not {_IM2COL, _TILES} <= known
        ):
            return None
        packed = _TILED in best.settings and {_IM2COL, _TILES} & set(best.settings)
        if not packed or not known.issuperset(best.settings):
            return None
        return route_of(self.knobs, sensible(self.knobs, {*best.settings, _IM2COL} - {_TILES}))

    def _timed(self, pieces: Sequence[Piece], route: Route) -> dict[Conv, float]:
        context = self.context
        timer = alone_timer(context, route)
        problems = [piece.conv for piece in pieces]
        found: dict[Conv, float] = {}
        with context.clocked("time"):
            for problem, default in timer.time(problems, should_stop=lambda: context.session.stop.requested):
                if default.us is not None and isinstance(problem, Conv):
                    found[problem] = default.us
        return found

    def _header(self, stay: Sequence[Piece]) -> Iterator[str]:
        yield f"{len(stay)} convolutions of {self.context.builder.program.name} that stay out of im2col, {WRITTEN}"
        yield "for iree-compile, with the flags that the flagfile beside it names"

    def _proven(self, route: Route, stay: Sequence[Piece]) -> bool:
        """Every one of them is found in the preprocessed program, marked."""
        context, wanted = self.context, sum(piece.calls for piece in stay)
        text = context.builder.preprocessed(context.flags(route), timeout=context.compile_timeout)
        with ir.Context() as mlir:
            marked = sum(STAYS in op.attributes for op in walk(parse(text, mlir).operation))
        how = f"{marked} of {wanted} convolutions stay out of im2col"
        context.note(f"route {route.name}: {how}" + ("" if marked == wanted else ", it is not tried"))
        return marked == wanted
