"""A row for each network: what autotune made of it, beside another library; and the table of all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotuner.system.process import Finished, last_line

Row = Mapping[str, Any]
_NAMES = ("network", "exported by", "reads", "default right", "verdict", "speedup", "of the library's time", "seconds")
_TRACEBACKS = ("Traceback (most recent call last)", "this is a bug of autotune")
_REFUSED, _LATE = 2, "ran out of time"
"""autotune's exit code for what it does not take, and its words where there was no time to find out."""


def judged(done: Finished) -> dict[str, Any]:
    """What one `autotune model … --json` said, or why it said nothing."""
    seconds = {"exit": done.code, "seconds": round(done.seconds, 1)}
    broken = next((text for text in _TRACEBACKS if text in done.stderr), "")
    if broken:
        return {**seconds, "reads": True, "verdict": "bug", "reason": _last_words(done)}
    try:
        found = json.loads(done.stdout)
    except ValueError:
        words = _last_words(done)
        late = done.timed_out or _LATE in words
        reads = None if late else done.code != _REFUSED
        return {**seconds, "reads": reads, "verdict": "too late" if late else "error", "reason": words}
    speedup, baseline, best = found["speedup"], found["baseline"], found["best"]
    won = found["verdict"] == "win"
    return {
        **seconds,
        "reads": True,
        "run": found["run"],
        "verdict": found["verdict"],
        "cause": found["cause"],
        "reason": found["reason"],
        "default_right": (found.get("reference") or {}).get("default_is_right"),
        "speedup": speedup["median"] if won and speedup else 1.0,
        "default_us": baseline["us"],
        "us": best["us"] if won and best else baseline["us"],
    }


def _last_words(done: Finished) -> str:
    """The error, which is what autotune prints last."""
    text = done.stderr.rpartition("autotune: ")[2] if "autotune: " in done.stderr else last_line(done.why())
    return " ".join(text.split())[:600]


def read(path: Path) -> dict[str, Row]:
    """The rows by network; of several the last counts. A line that a kill cut short counts nothing."""
    rows: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
            rows[row["network"]] = row
        except (ValueError, KeyError, TypeError):
            continue
    return rows


def of_library(row: Row) -> float | None:
    """The time of what ships, or of the default where nothing does, over the library's."""
    ours, theirs = row.get("us"), row.get("library_us")
    return ours / theirs if ours and theirs else None


def table(rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(_NAMES)} | reason |", "|---" * (len(_NAMES) + 1) + "|"]
    for row in rows:
        speedup, ratio = row.get("speedup"), of_library(row)
        cells = (
            row["network"],
            f"{row['how']}, {row['dtype']}",
            _said(row.get("reads")),
            _said(row.get("default_right")),
            row.get("verdict", "not made"),
            f"{speedup:.2f}x" if speedup else "–",
            f"{ratio:.2f}" if ratio else "–",
            f"{row.get('seconds', 0):.0f}",
            " ".join(str(row.get("reason") or row.get("not_made") or "").split()).replace("|", "\\|"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    ratios = [ratio for row in rows if (ratio := of_library(row))]
    verdicts = [row.get("verdict", "not made") for row in rows]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(sorted(verdicts)))
    lines += ["", f"{len(rows)} networks: {counts}."]
    if ratios:
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        lines.append(f"Of the library's time, the geometric mean of {len(ratios)}: {mean:.2f}.")
    return "\n".join(lines)


def _said(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"
