"""What workgroups of the product for Hopper copy, told by the kernel's own code on the host: all of both matrices, each
where it belongs, and no box that begins behind the end of its matrix, which faults on the chip."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner.microkernels.library import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.providers.cuda import macros
from autotuner.problems import Gemm
from autotuner.system import process
from tests.microkernels.test_gemm_cuda import f8

FOLDER = shipped_folder() / "gemm_cuda"
MANIFEST = load(FOLDER / FILE)
COMPILER = shutil.which("c++")
STEP = 64
"""Of the depth, in pairs of bytes."""
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: apt-get install g++")


@dataclass(frozen=True)
class Copy:
    """A box that is copied."""

    workgroup: int
    step: int
    to: int
    rows: int
    columns: int
    box: int
    row: int
    column: int
    to_all: int


@dataclass(frozen=True)
class Tile:
    """A tile that a workgroup computes: its entry of the batch and of the parts of each, and its steps."""

    workgroup: int
    entry: int
    row: int
    column: int
    begin: int
    steps: int


@dataclass(frozen=True)
class Launch:
    """All that a launch copies."""

    numbers: dict[str, int]
    tiles: tuple[Tile, ...]
    copies: tuple[Copy, ...]
    awaited: dict[tuple[int, int], int]
    """By workgroup and step: the bytes that its barrier waits for."""

    @classmethod
    def of(cls, problem: Gemm, parameters: dict[str, int], folder: Path) -> Launch:
        whole = dict.fromkeys(MANIFEST.parameters, 0) | parameters
        numbers = dict(MANIFEST.fit(problem, "sm_90", parameters=whole))
        given = macros(MANIFEST, problem, numbers) | {"GRID": MANIFEST.grid[0].evaluate(numbers)}
        program = folder / "copies"
        defines = [f"-D{name}={value}" for name, value in given.items()]
        source = Path(__file__).with_name("copies.cpp")
        assert COMPILER is not None
        made = process.run(
            [COMPILER, "-std=c++17", "-O1", "-w", "-I", FOLDER, *defines, source, "-o", program], timeout=120
        )
        assert made.ok, made.why()
        done = process.run([program], timeout=120)
        assert done.ok, done.why()
        lines = [line.split() for line in done.stdout.splitlines()]
        tiles = tuple(Tile(*map(int, words)) for kind, *words in lines if kind == "tile")
        copies = tuple(Copy(*map(int, words)) for kind, *words in lines if kind == "copy")
        awaited: dict[tuple[int, int], int] = defaultdict(int)
        for workgroup, step, size in (map(int, words) for kind, *words in lines if kind == "expect"):
            awaited[workgroup, step] += size
        return cls(numbers | given, tiles, copies, awaited)

    def of_tiles(self) -> Iterator[tuple[Tile, int, list[Copy]]]:
        """Each step of each tile with what is in its place then, by whichever workgroup of the cluster it came."""
        cluster = self.numbers["cluster"]
        arrived: dict[tuple[int, int], list[Copy]] = defaultdict(list)
        for one in self.copies:
            first = one.workgroup // cluster * cluster
            for workgroup in range(first, first + cluster) if one.to_all else [one.workgroup]:
                arrived[workgroup, one.step].append(one)
        before: dict[int, int] = defaultdict(int)
        for tile in self.tiles:
            for step in range(tile.steps):
                at = tile.workgroup, before[tile.workgroup]
                assert self.awaited[at] == sum(one.box * 2 * STEP for one in arrived[at]), "else it waits for ever"
                yield tile, step, arrived[at]
                before[tile.workgroup] += 1


CASES: list[tuple[Gemm, dict[str, int]]] = [
    # Whose last boxes would begin behind the end.
    (Gemm.parse(shape="640x1920x2560", layout="nt"), {"bm": 64, "bn": 176, "both": 2}),
    (Gemm.parse(shape="1024x1280x14336", dtype="bf16", layout="nt"), {"bm": 64, "bn": 176, "both": 1}),
    (Gemm.parse(shape="3072x5120x4096", dtype="bf16", layout="nt"), {"bm": 128, "bn": 240, "both": 1}),
    (Gemm.parse(shape="100x2048x8192", out="f16"), {"bm": 192, "bn": 112, "fill": 1, "turned": 1}),
    (Gemm.parse(shape="1024x5632x1024", layout="nt", epilogue="rms=1e-5,silu,gated"), {"bm": 64, "bn": 240, "both": 1}),
    # Of all layouts, several tiles, batches, clusters and parts.
    (Gemm.parse(shape="2008x2040x1976"), {"bm": 128, "bn": 256, "both": 2}),
    (Gemm.parse(shape="2008x2040x1976", layout="tt"), {"bm": 192, "bn": 96}),
    (Gemm.parse(shape="1000x1032x1000", layout="tn"), {"bm": 256, "bn": 128, "both": 2}),
    (Gemm.parse(shape="4096x4096x1024", layout="nt"), {"bm": 128, "bn": 128, "both": 1}),
    (Gemm.parse(shape="500x520x512", batch=16), {"bm": 128, "bn": 128, "both": 1}),
    (Gemm.parse(shape="384x512x8192", dtype="bf16", layout="nt"), {"bm": 128, "bn": 128, "fill": 1}),
    (Gemm.parse(shape="384x520x8192", layout="nt"), {"bm": 128, "bn": 176, "fill": 2}),
    (Gemm.parse(shape="72x4096x4096", layout="tt"), {"bm": 128, "bn": 128, "fill": 1, "turned": 1}),
    (Gemm.parse(shape="16x2048x8192", layout="nt"), {"bm": 128, "bn": 16, "fill": 3, "turned": 1}),
    (f8("1000x1032x1008"), {"bm": 128, "bn": 160, "both": 2}),
]


@needs_compiler
@pytest.mark.parametrize(("problem", "parameters"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_all_is_copied_to_its_place_and_no_box_begins_behind_the_end(
    problem: Gemm, parameters: dict[str, int], tmp_path: Path
) -> None:
    launch = Launch.of(problem, parameters, tmp_path)
    numbers = launch.numbers
    for one in launch.copies:
        assert 0 <= one.row < one.rows, one
        assert 0 <= one.column < one.columns, one
    turned, tall, broad = numbers["turned"], problem.n, problem.m
    if not turned:
        tall, broad = broad, tall
    across = [problem.layout[0] == "t", problem.layout[1] == "n"]
    x_across, y_across = across[::-1] if turned else across
    x_bytes, stage = numbers["bm"] * STEP * 2, (numbers["bm"] + numbers["bn"]) * STEP * 2
    computed: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for tile, step, copies in launch.of_tiles():
        depth = (tile.begin + step * numbers["split"] * numbers["parts"]) * STEP
        entry = tile.entry // numbers["parts"]
        computed[entry, tile.row, tile.column].append(depth)
        places = {one.to % stage: one for one in copies}
        assert len(places) == len(copies)
        x = {to: one for to, one in places.items() if to < x_bytes}
        y = {to - x_bytes: one for to, one in places.items() if to >= x_bytes}
        for boxes, lies_across, first, length, size in (
            (x, x_across, tile.row, tall, numbers["bm"]),
            (y, y_across, tile.column, broad, numbers["bn"]),
        ):
            expected = np.arange(first, first + size)
            got, depths = _read(boxes, size=size, across=lies_across)
            inside = expected < length
            base, along = (entry * length, 0) if not lies_across else (0, entry * numbers["deep"])
            assert np.array_equal(got[inside], expected[inside] + base)
            assert depths == {depth + along}
    tiles = {
        (entry, row, column)
        for entry in range(problem.batch)
        for row in range(0, tall, numbers["bm"])
        for column in range(0, broad, numbers["bn"])
    }
    assert tiles <= computed.keys()
    every = list(range(0, numbers["deep"], STEP))
    assert all(sorted(depths) == every for depths in computed.values())


def _read(boxes: dict[int, Any], *, size: int, across: bool) -> tuple[np.ndarray[Any, Any], set[int]]:
    """Which row of the matrix each row of the tile is (across: which column), and where its step begins."""
    got = np.full(size, -1)
    for to, one in boxes.items():
        if across:
            assert to % 8192 == 0
            got[to // 128 : to // 128 + STEP] = one.column + np.arange(STEP)
        else:
            assert to % 128 == 0
            got[to // 128 : to // 128 + one.box] = one.row + np.arange(one.box)
    return got, {one.row if across else one.column for one in boxes.values()}
