"""The names of MISA's convolution kernels: forward, channels last, f16, for gfx940 to gfx942.

https://github.com/ROCm/MISA generates them; driver/igemm_fwd_gtc_driver.h there has the rules that are kept here and in
the manifest misa_igemm_fwd_nhwc_fp16.
"""

from __future__ import annotations

import math
import re

from autotuner.errors import UsageError

VALUES = ("bm", "bn", "bk", "nxe", "threads", "vector", "padded_c", "merge_e", "gkgs")
"""What expressions may use of a kernel's name."""
_WIDEST_STORE = 8
_WAVE = 64
_FOUR = r"\d+x\d+x\d+x\d+"
_NAME = re.compile(
    r"igemm_fwd_gtcx3_nhwc_fp16(?:x\d+)?_bx\d+_ex(?P<nxe>\d+)_(?:sa\d+_)?bt(?P<bt>\d+x\d+x\d+)_wt(?P<wt>\d+x\d+x\d+)"
    rf"_ws(?P<ws>\d+x\d+)_wr(?P<wr>\d+x\d+)_ta(?P<ta>{_FOUR})_{_FOUR}_tb(?P<tb>{_FOUR})_{_FOUR}"
    r"(?:_pta)?(?:_ptb)?(?:_mc)?(?:_nc)?(?:_kc)?(?:_mh)?(?P<me>_me)?(?:_vs(?P<vs>\d+))?(?P<gkgs>_gkgs)?"
)


def read_name(symbol: str) -> dict[str, int]:
    """What a kernel's name says, by `VALUES`.

    `nxe` 0 is only for 1x1 filters with stride 1 and no padding; with `padded_c` channels are read one by one, so that
    any number of them will do; `vector` is how many output channels are written at once; `gkgs` kernels may split the
    reduction over workgroups (by 2^ks), and add to the output.
    """
    found = _parsed(symbol)
    (bm, bn, bk), wave, step, repeat = (_sizes(found[part]) for part in ("bt", "wt", "ws", "wr"))
    rows, columns = (wave[axis] * step[axis] * repeat[axis] for axis in (0, 1))
    if 0 in (rows, columns, bm, bn, bk) or bm % rows or bn % columns:
        raise UsageError(
            f"{symbol!r}: its waves do not divide its tile bt{found['bt']}.", remedy="Is the name copied whole?"
        )
    padded, adds, stored = _sizes(found["ta"])[1] == _sizes(found["tb"])[1] == 1, bool(found["gkgs"]), _stored(found)
    vector = 1 if padded else math.gcd(2, stored or 2) if adds else math.gcd(bn, stored or _WIDEST_STORE)
    threads = bm // rows * (bn // columns) * _WAVE
    numbers = (bm, bn, bk, int(found["nxe"]), threads, vector, int(padded), int(bool(found["me"])), int(adds))
    return dict(zip(VALUES, numbers, strict=True))


def out_element(symbol: str) -> str:
    """The type of the output buffer: what is added up by single atomics is f32."""
    found = _parsed(symbol)
    return "f32" if found["gkgs"] and _stored(found) % 2 else "f16"


def _parsed(symbol: str) -> re.Match[str]:
    found = _NAME.fullmatch(symbol) if len(symbol) <= 400 else None
    if found is None:
        raise UsageError(
            f"{symbol[:200]!r} is not the name of a MISA kernel for forward convolutions in f16, channels last.",
            remedy="Give one like igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32_wt…_ws…_wr…_ta…_tb…",
        )
    return found


def _stored(found: re.Match[str]) -> int:
    return int(found["vs"] or 0)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))
