"""MISA's convolution kernels: what their names say, which problems they fit, and the log of MISA's driver.

https://github.com/ROCm/MISA generates them; driver/igemm_fwd_gtc_driver.h there has the rules that are kept here and in
the manifest misa_igemm_fwd_nhwc_fp16.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from autotuner.errors import UsageError
from autotuner.problems import Conv, Problem

VALUES = ("bm", "bn", "bk", "nxe", "threads", "vector", "padded_c", "merge_e", "gkgs")
"""What expressions may use of a kernel's name."""
_CHIPS = {
    "x": ("gfx908",),
    "x2": ("gfx90a",),
    "x3": ("gfx940", "gfx941", "gfx942"),
}
_DTYPES = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}
_WIDEST_STORE = 8
_WAVE = 64
_FOUR = r"(\d+)x(\d+)x(\d+)x(\d+)"
_NAME = re.compile(
    r"igemm_(?P<direction>fwd|bwd|wrw)_gtc(?P<generation>[a-z]?\d?)_(?P<layout>nhwc|nchw[a-z_]*)_(?P<precision>[a-z]+\d+)"
    r"(?:x\d+)?_bx\d+_ex(?P<nxe>\d+)_(?:sa\d+_)?bt(?P<bt>\d+x\d+x\d+)_wt(?P<wt>\d+x\d+x\d+)_ws(?P<ws>\d+x\d+)"
    rf"_wr(?P<wr>\d+x\d+)_ta(?P<ta>{_FOUR})_{_FOUR}_tb(?P<tb>{_FOUR})_{_FOUR}"
    r"(?:_pta)?(?:_ptb)?(?:_mc)?(?:_nc)?(?:_kc)?(?P<mh>_mh)?(?P<me>_me)?(?:_vs(?P<vs>\d+))?(?P<gkgs>_gkgs)?"
)
_LINE = re.compile(r"\[(?:fwd|bwd|wrw):\s*(?P<index>\d{1,6})\]\s*(?P<rest>.*)")
_KERNEL = re.compile(r"[A-Za-z]\w{0,400}(?!\w)")
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{0,12})?)"
_SPLIT = re.compile(r"\[\s*(\d{1,2})\s*\]")
_COST = re.compile(rf"cost\s*:\s*{_NUMBER}\s*ms")
_TFLOPS = re.compile(rf"tflops\s*:\s*{_NUMBER}")
_VALID = re.compile(r"valid\s*:\s*([yn])\b")


@dataclass(frozen=True, slots=True)
class KernelName:
    """What the name of a kernel says."""

    symbol: str
    direction: str
    generation: str
    """Which matrix instructions it has: x, x2, x3."""
    layout: str
    precision: str
    nxe: int
    """0: only for 1x1 filters with stride 1 and no padding."""
    block: tuple[int, int, int]
    threads: int
    padded_c: bool
    """Channels are read one by one: any number of them will do."""
    merge_e: bool
    vector_store: int
    gkgs: bool
    """It may split the reduction over workgroups (by 2^ks), and adds to the output."""

    @classmethod
    def parse(cls, symbol: str) -> KernelName:
        found = _NAME.fullmatch(symbol) if len(symbol) <= 400 else None
        if found is None:
            raise UsageError(
                f"{symbol[:200]!r} is not the name of a MISA convolution kernel.",
                remedy="Give one like igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32_wt…_ws…_wr…_ta…_tb…",
            )
        tile, wave, step, repeat = (_sizes(found[part]) for part in ("bt", "wt", "ws", "wr"))
        per_wave = [wave[axis] * step[axis] * repeat[axis] for axis in (0, 1)]
        if 0 in per_wave or 0 in tile or any(tile[axis] % per_wave[axis] for axis in (0, 1)):
            raise UsageError(
                f"{symbol!r}: its waves do not divide its tile bt{found['bt']}.", remedy="Is the name copied whole?"
            )
        waves = math.prod(tile[axis] // per_wave[axis] for axis in (0, 1))
        return cls(
            symbol=symbol,
            direction=found["direction"],
            generation=found["generation"],
            layout=found["layout"],
            precision=found["precision"],
            nxe=int(found["nxe"]),
            block=(tile[0], tile[1], tile[2]),
            threads=waves * _WAVE,
            padded_c=_sizes(found["ta"])[1] == _sizes(found["tb"])[1] == 1,
            merge_e=bool(found["me"]),
            vector_store=int(found["vs"] or 0),
            gkgs=bool(found["gkgs"]),
        )

    @property
    def values(self) -> dict[str, int]:
        bm, bn, bk = self.block
        return {
            "bm": bm,
            "bn": bn,
            "bk": bk,
            "nxe": self.nxe,
            "threads": self.threads,
            "vector": self.vector,
            "padded_c": int(self.padded_c),
            "merge_e": int(self.merge_e),
            "gkgs": int(self.gkgs),
        }

    @property
    def vector(self) -> int:
        """How many output channels it writes at once: theirs must be a multiple."""
        if self.padded_c:
            return 1
        if self.gkgs:
            return math.gcd(2, self.vector_store or 2)
        return math.gcd(self.block[1], self.vector_store or _WIDEST_STORE)

    @property
    def out_element(self) -> str:
        """The type of the output buffer: what is added up by single atomics is f32, whatever the inputs are."""
        own = _DTYPES[self.precision]
        alone = own == "bf16" or (own == "f16" and self.vector_store and self.vector_store % 2)
        return "f32" if self.gkgs and alone else own

    def objection(self, problem: Problem, chip: str) -> str:
        """Why this kernel cannot compute this problem on this chip, as far as its name says; empty: it can."""
        chips = _CHIPS.get(self.generation, ())
        if not isinstance(problem, Conv):
            return f"it is a convolution, not {problem.op}"
        if self.direction != "fwd":
            return f"its direction is {self.direction}, a convolution needs fwd"
        if self.layout != "nhwc" or not problem.channels_last:
            return f"its layout is {self.layout} and the problem's is {problem.layout}; only nhwc with nhwc-hwcf goes"
        if _DTYPES.get(self.precision) != problem.dtype:
            return f"it computes {self.precision} and the problem is {problem.dtype}"
        if chip not in chips:
            return f"gtc{self.generation} is for {', '.join(chips) or 'chips unknown here'}, not {chip}"
        return ""


@dataclass(frozen=True, slots=True)
class DriverRow:
    """One kernel that MISA's driver timed."""

    index: int
    kernel: str
    ks: int
    """The split that was fastest: 2^ks workgroups share a reduction."""
    ms: float
    tflops: float | None
    valid: bool | None
    """None: the driver was not asked to compare."""


@dataclass(frozen=True, slots=True)
class DriverLog:
    rows: tuple[DriverRow, ...]
    skipped: tuple[str, ...]
    """Lines that begin like a result and are none, with the reason."""

    @property
    def best(self) -> tuple[DriverRow, ...]:
        """Those not known to be wrong, the fastest first."""
        return tuple(sorted((row for row in self.rows if row.valid is not False), key=lambda row: row.ms))


def read_driver_log(text: str) -> DriverLog:
    """The results in the output of MISA's `conv_driver.exe`; what the driver calls not applicable is left out."""
    rows, skipped = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.search(line)
        if found is None or "not applicable" in found["rest"]:
            continue
        try:
            rows.append(_row(int(found["index"]), found["rest"]))
        except ValueError as error:
            skipped.append(f"line {number}: {error}: {line.strip()[:160]}")
    return DriverLog(tuple(rows), tuple(skipped))


def _row(index: int, rest: str) -> DriverRow:
    kernel, cost = _KERNEL.match(rest), _COST.search(rest)
    if kernel is None:
        raise ValueError("no kernel name")
    if cost is None or float(cost[1]) <= 0:
        raise ValueError("no cost in ms")
    split = _SPLIT.search(rest, kernel.end(), cost.start())
    tflops, valid = _TFLOPS.search(rest), _VALID.search(rest)
    return DriverRow(
        index=index,
        kernel=kernel[0],
        ks=int(split[1]) if split else 0,
        ms=float(cost[1]),
        tflops=float(tflops[1]) if tflops else None,
        valid=valid[1] == "y" if valid else None,
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))
