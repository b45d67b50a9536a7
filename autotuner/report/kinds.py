"""What only some runs have: a model's dispatches, a suite's problems, an experiment's arms, a family's buckets, a
comparison's libraries, a retuning's entries. Each is a table of what the run's document lists, by names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from autotuner.measure.blocks import ratio_text
from autotuner.report.charts import Chart, Mark, forest
from autotuner.report.page import Section
from autotuner.report.reading import Run
from autotuner.report.tables import Field, Kind, Table, error, interval, lines, number, text, us
from autotuner.system.text import count

MOST_SHOWN = 60
"""Problems in a chart: those with most time. The table has all."""
_PLACES = "problem calls percent kernel us codegen_us state reason"
"""Of an operation that a microkernel can compute."""
_Row = Mapping[str, Any]
_Rows = Sequence[_Row]
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("verdict", "state", "failure"), "badge"),
    **dict.fromkeys(("reason", "why", "how", "problems"), "long"),
    **dict.fromkeys(("flags", "spec", "flagfile", "command"), "code"),
}
"""Kinds of columns by name; others are numbers or text."""


def own_sections(run: Run) -> list[Section]:
    """By the kind of the run; none for a single problem."""
    make: Mapping[str, Callable[[_Row], list[Section]]] = {
        "model": _model,
        "suite": _suite,
        "ab": _experiment,
        "buckets": _family,
        "bench": _libraries,
        "retune": _retuned,
    }
    made = make[run.row.kind](run.document) if run.row.kind in make else []
    return [section for section in made if section]


# --- tables by names -------------------------------------------------------------------------------------------------


def table(caption: str, rows: _Rows, names: str) -> Table:
    """These names of each row, `baseline.us` for one within another; what no row has is left out."""
    known = [name for name in names.split() if any(_at(row, name) not in (None, "", [], {}) for row in rows)]
    fields = [
        Field(_title(name), partial(_cell, name), _kind(name, rows), link="#run-" if name == "run" else "")
        for name in known
    ]
    return Table.of(caption, rows if known else (), fields)


def _at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _title(name: str) -> str:
    """`tuned_us`: tuned µs."""
    words = name.replace(".", "_").split("_")
    return " ".join("µs" if word == "us" else word for word in words)


def _kind(name: str, rows: _Rows) -> Kind:
    values = (_at(row, name) for row in rows)
    numbers = any(interval(one) if isinstance(one, Mapping) else isinstance(one, int | float) for one in values)
    return _KINDS.get(name, "number" if numbers else "text")


def _cell(name: str, row: _Row) -> str:
    """A value as people read it."""
    value = _at(row, name)
    if isinstance(value, Mapping):
        return interval(value) or ", ".join(f"{key}={one}" for key, one in value.items() if one is not None)
    if isinstance(value, list | tuple):
        return lines(value)
    if name.endswith("us"):
        return us(value)
    return error(value) if name == "error" else text(value)


def _section(slug: str, title: str, *tables: Table, words: tuple[str, ...] = ()) -> Section:
    return Section(slug, title, words, tables=tables)


# --- kinds of runs ---------------------------------------------------------------------------------------------------


def _model(document: _Row) -> list[Section]:
    entries, by = document.get("entries") or {}, document.get("ranked_by")
    ranked = f"Ranked by {by} on route {document.get('ranked_route')}. " if by else ""
    found, shipped = entries.get("applied", 0), entries.get("shipped", 0)
    applied = f"{found} of {shipped} shipped entries are found in the compiled model."
    told = f"{ranked}{applied if shipped else 'No entry of a spec is shipped.'}"
    rows = [{**row, "percent": 100 * (number(row.get("share")) or 0.0)} for row in document.get("dispatches") or []]
    places = (document.get("microkernels") or {}).get("places") or []
    kernels = [{**row, "percent": 100 * (number(row.get("share")) or 0.0)} for row in places]
    return [
        _section("time", "Where the time goes", table("Time of one call", _times(document), "kind default_us best_us")),
        _section(
            "dispatches",
            "Dispatches",
            table(
                "With what each entry gained" if shipped else "Of one call",
                rows,
                f"name calls percent us speedup state code {'applied' if shipped else ''} reason",
            ),
            words=(told,),
        ),
        _section("microkernels", "Microkernels", table("Operations that a microkernel can compute", kernels, _PLACES)),
        _section(
            "routes",
            "Routes",
            table("Of the whole model", document.get("routes") or [], "name us error compile_seconds failure flags"),
        ),
    ]


def _times(document: _Row) -> list[_Row]:
    """A row for each kind of dispatch, with its microseconds of both sides."""
    time, found = document.get("time") or {}, dict[str, dict[str, Any]]()
    for side, name in (("before", "default_us"), ("after", "best_us")):
        for part in (time.get(side) or {}).get("parts") or []:
            found.setdefault(str(part.get("kind")), {})[name] = part.get("us")
    return [{"kind": kind, **sides} for kind, sides in found.items()]


_UPLIFT = {
    "kept": "problems kept",
    "weighted": "saved, % of all time",
    "coverage": "% of all time that these take",
    "geometric_mean": "geometric mean of their speedups",
    "us_total": "all time by default, µs",
    "us_saved": "saved, µs",
}
_BASIS = "The times are from the end of each problem's own run, the speedups from blocks timed side by side there."


def _suite(document: _Row) -> list[Section]:
    rows = [
        {
            **row,
            "default_us": number(row.get("reference_us")) or row.get("default_us"),
            "speedup": {"median": row.get("ratio"), "low": row.get("low"), "high": row.get("high")},
        }
        for row in document.get("problems") or []
    ]
    tuned = [row for row in rows if number(row.get("ratio"))]
    names = "problem calls share default_us tuned_us speedup verdict carrier run reason"
    uplift = document.get("uplift") or {}
    told = {title: text(uplift.get(name)) for name, title in _UPLIFT.items() if uplift.get("kept")}
    return [
        Section(
            "problems",
            "Problems",
            (_BASIS,) if tuned else (),
            facts=tuple((title, value) for title, value in told.items() if value),
            charts=_uplifts(tuned[:MOST_SHOWN]),
            tables=(
                table("Problems of the suite", rows, names),
                table("Compiled together", document.get("groups") or [], "problems us_saved carrier flags flagfile"),
            ),
        )
    ]


def _ratio(name: str, ratio: _Row, colour: str, run: str = "") -> Mark:
    value, low, high = (number(ratio.get(which)) for which in ("median", "low", "high"))
    return Mark(name, value or 1.0, low, high, colour, interval(ratio, unit="x"), f"#run-{run}" if run else "")


def _uplifts(rows: _Rows) -> tuple[Chart, ...]:
    """The speedups of the problems, the one with most time first."""
    marks = [
        _ratio(text(row.get("problem")), row["speedup"], "good" if row.get("kept") else "muted", text(row.get("run")))
        for row in rows
    ]
    return (forest("Speedup of each problem, with its interval", marks),) if marks else ()


def _experiment(document: _Row) -> list[Section]:
    difference = number(document.get("difference"))
    words = [] if difference is None else [f"Relative error between what both arms compute: {difference:.1e}."]
    words += ["Both arms have the same machine code."] if document.get("same_code") else []
    arms = table("Of the experiment", document.get("arms") or [], "name kind us error applied flags spec command")
    return [_section("arms", "Arms", arms, words=tuple(words))]


def _family(document: _Row) -> list[Section]:
    names = "bucket low high tuned_at uses verdict baseline.us best.us speedup run why"
    return [_section("buckets", "Buckets", table("Of the family, by M", document.get("buckets") or [], names))]


def _retuned(document: _Row) -> list[Section]:
    """The state of each entry, and why."""
    names = "entry problem spec state before_us us baseline_us speedup reason run"
    return [_section("entries", "Entries", table("What became of each", document.get("entries") or [], names))]


def _libraries(document: _Row) -> list[Section]:
    """Every backend of every problem."""
    names = "problem backend us gflops over_iree cold_us error version failure reason how"
    rows = [*_backends(document)]
    marks = [
        _ratio(f"{row['backend']}, {row['problem']}", over, "c1")
        for row in rows
        if row["backend"] != "iree" and number((over := row.get("over_iree") or {}).get("median"))
    ]
    charts = (forest("Times as fast as IREE's default", marks[:MOST_SHOWN]),) if marks else ()
    return [Section("libraries", "Libraries", charts=charts, tables=(table("Timed in turns", rows, names),))]


def _backends(document: _Row) -> Iterator[_Row]:
    for problem in document.get("problems") or []:
        for row in problem.get("backends") or []:
            yield {**row, "problem": text(problem.get("name"))}


def headline(document: _Row) -> str:
    """How much faster than each of the others IREE is."""
    several = len(document.get("problems") or []) > 1
    told, by = [], ""
    for name, entry in (document.get("summary") or {}).items():
        if mean := number(entry.get("geometric_mean")):
            of = f" (of {count(int(number(entry.get('problems')) or 0), 'problem')})" if several else ""
            ratio = ratio_text(max(mean, 1 / mean))
            told.append(f"{ratio} {'faster' if mean >= 1 else 'slower'} than {text(name)}{of}")
            by = by or text(entry.get("by"))
    return f"{by} is {', '.join(told)}{', in the geometric mean' if several else ''}" if told else ""
