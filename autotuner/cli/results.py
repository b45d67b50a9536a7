"""`autotune history` and `cache`: what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.cli.console import emit, make_console, show
from autotuner.cli.lazy import Lazy
from autotuner.errors import UsageError
from autotuner.report.history import (
    VERDICT_WORDS,
    history_records,
    listed_records,
    runs_table,
    trend_records,
    trend_table,
)
from autotuner.store.filters import ALL_RUNS, RunFilter
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.listing import Listing
from autotuner.system.settings import cache_dir

if TYPE_CHECKING:
    from autotuner import targets
    from autotuner.report import exports, tables
else:
    targets = Lazy("autotuner.targets")
    exports, tables = Lazy("autotuner.report.exports"), Lazy("autotuner.report.tables")

MOST_RUNS = 2**31 - 1
"""More than a database can be asked for means all."""
_AGO = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHAPE = re.compile(r"\d+(x\d+)*")


@dataclass(frozen=True)
class Wanted:
    """Which runs, in the words of the command line."""

    limit: int = 20
    op: str | None = None
    shape: str | None = None
    target: str | None = None
    device: str | None = None
    since: str | None = None
    verdict: str | None = None

    def checked(self) -> RunFilter:
        if self.limit < 1:
            raise UsageError(f"--limit {self.limit} is not positive.", remedy="Give --limit 1 or more.")
        if self.shape is not None and not _SHAPE.fullmatch(self.shape.lower()):
            remedy = "Give the sizes as the problem's name has them, such as 512x512x1024."
            raise UsageError(f"--shape {self.shape!r} is not a shape.", remedy=remedy)
        if self.verdict is not None and self.verdict not in VERDICT_WORDS:
            remedy = f"Choose one of: {', '.join(VERDICT_WORDS)}."
            raise UsageError(f"--verdict {self.verdict!r} is unknown.", remedy=remedy)
        return RunFilter(
            op=self.op.lower() if self.op is not None else None,
            shape=self.shape.lower() if self.shape is not None else None,
            target=self.target,
            device=self.device,
            since=parse_since(self.since) if self.since is not None else None,
            verdict=self.verdict,
        )


def parse_since(text: str, *, now: datetime | None = None) -> datetime:
    """`2026-11-01`, `2026-11-01T08:30`, or so long ago: `90m`, `12h`, `7d`, `2w`."""
    now = now or datetime.now().astimezone()
    try:
        if ago := _AGO.fullmatch(text.strip().lower()):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        remedy = "Write 2026-11-01, 2026-11-01T08:30, or how long ago: 12h, 7d, 2w."
        raise UsageError(f"--since {text!r} is not a date.", remedy=remedy) from None


@dataclass(frozen=True)
class Shown:
    """What of the runs, and how."""

    run: str | None = None
    trend: bool = False
    as_json: bool = False
    no_color: bool = False


def history(shown: Shown, wanted: Wanted, *, workspace: Path, storage: str | None) -> None:
    """List the runs of this workspace, one run's candidates and parts, or how a problem did over time."""
    which = wanted.checked()
    limit = min(wanted.limit, MOST_RUNS)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        if shown.run is not None:
            _show_run(store, shown.run, shown)
            return
        which = _with_known_target(store, which)
        read = trend_records if shown.trend else history_records if shown.as_json else listed_records
        records = read(store, limit, which=which)
        if shown.as_json:
            print(json.dumps(records, indent=2))
        elif not records and which != ALL_RUNS:
            emit("no run is like that; `autotune history` lists them all")
        else:
            _show(map(trend_table, records) if shown.trend else [runs_table(records)], shown)


def _with_known_target(store: Store, which: RunFilter) -> RunFilter:
    """A product's name is that of its chip. The catalogue is only asked where no run has the name itself."""
    if which.target is None or store.runs(1, which=RunFilter(target=which.target)):
        return which
    return replace(which, target=targets.Target.parse(which.target).name)


def _show_run(store: Store, run: str, shown: Shown) -> None:
    if shown.as_json:
        emit(exports.export_json(exports.export_records(store, run)), end="")
    else:
        _show(tables.run_tables(store, run), shown)


def _show(listings: Iterable[Listing], shown: Shown) -> None:
    console = make_console(no_color=shown.no_color)
    for listing in listings:
        show(console, listing)


def cache(*, clear: bool, as_json: bool) -> None:
    """Show the build cache, or empty it."""
    store = Cache(cache_dir())
    if clear:
        store.clear()
    entries, size = store.size()
    if as_json:
        print(json.dumps({"path": str(store.root), "builds": entries, "bytes": size}))
    else:
        emit(f"{store.root}: {entries} builds, {size / 2**20:.1f} MiB")
