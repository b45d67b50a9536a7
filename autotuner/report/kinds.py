"""What only some runs have: a model's dispatches, a suite's problems, an experiment's arms, a family's buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotuner.report.cells import fixed, interval, text, us
from autotuner.report.charts import brief, one_line
from autotuner.report.page import Chart, Column, Kind, Table, plain
from autotuner.report.reading import Run, number
from autotuner.report.retuned import retuned
from autotuner.report.sections import Section

_COLOURS = ("@c1", "@c2", "@c3", "@c4", "@c5", "@c6", "@c7", "@c8")
_Rows = Sequence[Mapping[str, Any]]


def own_sections(run: Run) -> list[Section]:
    """By the kind of the run; none for a single problem."""
    make: Mapping[str, Callable[[Run], list[Section]]] = {
        "model": _model,
        "suite": _suite,
        "ab": _experiment,
        "buckets": _family,
        "retune": retuned,
    }
    return make[run.row.kind](run) if run.row.kind in make and run.document else []


# --- a model ------------------------------------------------------------------------------------------------------


def _model(run: Run) -> list[Section]:
    document = run.document
    time = document.get("time") or {}
    found = [
        Section(
            "dispatches",
            "Dispatches",
            _ranked(document),
            tables=(_dispatches(document.get("dispatches") or []), _others(document.get("others") or [])),
        )
    ]
    if time:
        found.insert(
            0, Section("time", "Where the time goes", _how(time), wide=_breakdown(time), tables=(_kinds(time),))
        )
    kernels = (document.get("microkernels") or {}).get("places") or []
    if kernels:
        found.append(Section("microkernels", "Microkernels", tables=(_documents("Microkernels", kernels),)))
    routes: _Rows = document.get("routes") or []
    words = () if routes else ("No route was tried as a whole.",)
    found.append(Section("routes", "Routes", words, tables=(_routes(routes),)))
    return found


def _ranked(document: Mapping[str, Any]) -> tuple[str, ...]:
    entries = document.get("entries") or {}
    by, route = document.get("ranked_by"), document.get("ranked_route")
    ranked = f"Ranked by {by} on route {route}. " if by else ""
    found, shipped = entries.get("applied", 0), entries.get("shipped", 0)
    applied = f"{found} of {shipped} shipped entries are found in the compiled model."
    applied = applied if shipped else "No entry of a spec is shipped."
    return (f"{ranked}{applied}",)


def _dispatches(rows: _Rows) -> Table:
    columns = _columns(
        "dispatch",
        ("calls", "number"),
        ("share, %", "number"),
        ("µs before", "number"),
        ("speedup alone", "number"),
        ("µs after", "number"),
        ("state", "badge"),
        ("code"),
        ("applied", "number"),
        ("why", "long"),
    )
    cells = []
    for row in rows:
        before, ratio = number(row.get("us")), number((row.get("speedup") or {}).get("median"))
        shipped = bool(row.get("applied"))
        after = before / ratio if before and ratio and shipped else before
        cells.append(
            (
                text(row.get("name")),
                text(row.get("calls")),
                fixed(100 * (number(row.get("share")) or 0.0), 1),
                us(before),
                interval(row.get("speedup")),
                us(after),
                text(row.get("state")),
                text(row.get("code")),
                text(row.get("applied")),
                text(row.get("reason")),
            )
        )
    return Table("Dispatches that can be tuned, before and after, with what each entry gained", columns, cells)


def _others(rows: _Rows) -> Table:
    columns = _columns("dispatch", ("calls", "number"), ("share, %", "number"), "kind", ("why", "long"))
    cells = [
        (
            text(row.get("name")),
            text(row.get("calls")),
            fixed(100 * (number(row.get("share")) or 0.0), 1),
            text(row.get("kind")),
            text(row.get("reason")),
        )
        for row in rows
    ]
    return Table("Dispatches with nothing to tune", columns, cells)


def _how(time: Mapping[str, Any]) -> tuple[str, ...]:
    said = dict.fromkeys(
        str(side["how"]) for side in (time.get("before"), time.get("after")) if side and side.get("how")
    )
    missing = [
        f"Of the {name} no such times were taken." for name in ("default", "best") if name not in dict(_sides(time))
    ]
    return (" ".join([f"By {'; '.join(said)}.", *missing]),) if said else ()


def _sides(time: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    named = (("default", time.get("before")), ("best", time.get("after")))
    return [(name, side) for name, side in named if side]


def _kind_us(side: Mapping[str, Any]) -> dict[str, float]:
    return {str(part.get("kind")): number(part.get("us")) or 0.0 for part in side.get("parts") or []}


def _breakdown(time: Mapping[str, Any]) -> tuple[Chart, ...]:
    sides = [(name, _kind_us(side)) for name, side in _sides(time)][::-1]
    kinds = dict.fromkeys(kind for _, parts in reversed(sides) for kind in parts)
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain(kind),
            "y": [name for name, _ in sides],
            "x": [parts.get(kind, 0.0) / 1e3 for _, parts in sides],
            "marker": {"color": _COLOURS[i % len(_COLOURS)]},
            "hovertemplate": f"%{{y}}, {plain(kind)}: %{{x:.4g}} ms<extra></extra>",
        }
        for i, kind in enumerate(kinds)
    ]
    layout = {"barmode": "stack", "xaxis": {"title": {"text": "ms"}}, "yaxis": {"type": "category"}, "bargap": 0.3}
    chart = Chart("Time of one call by kind of dispatch", {"data": bars, "layout": layout}, height=240)
    return (chart,) if bars else ()


def _kinds(time: Mapping[str, Any]) -> Table:
    sides = _sides(time)
    columns = _columns("kind", *((f"{name}, {unit}", "number") for name, _ in sides for unit in ("ms", "%")))
    tables = [(_kind_us(side), number(side.get("us")) or 0.0) for _, side in sides]
    kinds = dict.fromkeys(kind for parts, _ in tables for kind in parts)
    rows = []
    for kind in kinds:
        cells = [kind]
        for parts, whole in tables:
            us = parts.get(kind, 0.0)
            cells += [f"{us / 1e3:.3f}", fixed(100 * us / whole, 1) if whole else ""]
        rows.append(cells)
    return Table(f"Time by kind of dispatch{', before and after' if len(sides) > 1 else ''}", columns, rows)


def _routes(rows: _Rows) -> Table:
    columns = _columns(
        "route", ("µs", "number"), ("error", "number"), ("compile, s", "number"), ("state", "badge"), ("flags", "code")
    )
    cells = [
        (
            text(row.get("name")),
            us(number(row.get("us"))),
            "" if number(row.get("error")) is None else f"{row['error']:.1e}",
            fixed(number(row.get("compile_seconds")), 1),
            text(row.get("failure") or ("timed" if number(row.get("us")) else "")),
            "\n".join(map(str, row.get("flags") or [])),
        )
        for row in rows
    ]
    return Table("Routes of the whole model", columns, cells)


# --- a suite ------------------------------------------------------------------------------------------------------


_UPLIFT = {
    "kept": "problems that gain",
    "problems": "of problems",
    "weighted": "% of the time saved",
    "coverage": "% of the time tuned",
    "geometric_mean": "speedup, geometric mean",
    "median": "speedup, median",
    "us_saved": "µs saved",
    "us_total": "of µs",
}


_OTHER_MOMENTS = (
    "The times are from the end of a problem's own run, where it has one, and the speedup is from blocks that were "
    "timed side by side there. Shares and what is saved go by a first look at the default of all problems."
)


def _suite(run: Run) -> list[Section]:
    document = run.document
    rows: _Rows = document.get("problems") or []
    uplift = document.get("uplift") or {}
    facts = [(words, text(uplift[name])) for name, words in _UPLIFT.items() if uplift.get(name) is not None]
    return [
        Section(
            "problems",
            "Problems",
            (_OTHER_MOMENTS,) if any(row.get("ratio") for row in rows) else (),
            facts=tuple(facts),
            wide=_uplifts(rows),
            tables=(_problems(rows), _groups(document.get("groups") or [])),
        )
    ]


def _problems(rows: _Rows) -> Table:
    columns = _columns(
        "problem",
        ("calls", "number"),
        ("share, %", "number"),
        ("default µs", "number"),
        ("tuned µs", "number"),
        ("speedup", "number"),
        ("verdict", "badge"),
        "carrier",
        ("why", "long"),
    )
    columns.insert(8, Column("run", link="#run-"))
    cells = [
        (
            text(row.get("problem")),
            text(row.get("calls")),
            fixed(number(row.get("share")), 2),
            us(number(row.get("reference_us")) or number(row.get("default_us"))),
            us(number(row.get("tuned_us"))),
            interval({"median": row.get("ratio"), "low": row.get("low"), "high": row.get("high")}),
            text(row.get("verdict")),
            text(row.get("carrier")),
            text(row.get("run")),
            text(row.get("reason")),
        )
        for row in rows
    ]
    return Table("Problems of the suite", columns, cells)


def _uplifts(rows: _Rows) -> tuple[Chart, ...]:
    """The speedup of each problem that came to one, the one with most time first."""
    told = [row for row in rows if number(row.get("ratio"))][:60][::-1]
    if not told:
        return ()
    ratios = [float(row["ratio"]) for row in told]
    ends = [
        (number(row.get("low")) or ratio, number(row.get("high")) or ratio)
        for row, ratio in zip(told, ratios, strict=True)
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "speedup",
        "x": ratios,
        "y": [plain(brief(text(row.get("problem")))) for row in told],
        "marker": {"color": ["@good" if row.get("kept") else "@muted" for row in told], "size": 10},
        "hovertemplate": "%{y}: %{x:.3f}<extra></extra>",
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [high - ratio for ratio, (_, high) in zip(ratios, ends, strict=True)],
            "arrayminus": [ratio - low for ratio, (low, _) in zip(ratios, ends, strict=True)],
            "color": "@muted",
        },
    }
    layout = {
        "xaxis": {"title": {"text": "times as fast as the default"}},
        "yaxis": {"type": "category"},
        "shapes": [one_line()],
    }
    title = "Speedup of each problem, with its interval"
    return (Chart(title, {"data": [dots], "layout": layout}, height=120 + 28 * len(told)),)


def _groups(rows: _Rows) -> Table:
    columns = _columns(("problems", "long"), ("ms saved", "number"), "carrier", ("flags", "code"), ("flagfile", "code"))
    cells = [
        (
            ", ".join(map(str, row.get("problems") or [])),
            fixed((number(row.get("us_saved")) or 0.0) / 1e3, 3),
            text(row.get("carrier")),
            "\n".join(map(str, row.get("flags") or [])),
            text(row.get("flagfile")),
        )
        for row in rows
    ]
    return Table("What compiles together", columns, cells)


# --- an experiment, a family --------------------------------------------------------------------------------------


def _experiment(run: Run) -> list[Section]:
    arms: _Rows = run.document.get("arms") or []
    columns = _columns(
        "arm", "kind", ("µs", "number"), ("error", "number"), ("applied", "number"), ("flags", "code"), ("spec", "code")
    )
    cells = [
        (
            text(arm.get("name")),
            text(arm.get("kind")),
            us(number(arm.get("us"))),
            "" if number(arm.get("error")) is None else f"{arm['error']:.1e}",
            text(arm.get("applied")),
            "\n".join(map(str, arm.get("flags") or [])),
            text(arm.get("spec")),
        )
        for arm in arms
    ]
    difference = number(run.document.get("difference"))
    words = [] if arms else ["The arms were not compared."]
    words += [] if difference is None else [f"Relative error between what both arms compute: {difference:.1e}."]
    words += ["Both arms have the same machine code."] if run.document.get("same_code") else []
    blocks = [(f"Repeat {text(arm.get('name'))}", "\n".join(map(str, arm.get("command") or []))) for arm in arms]
    table = Table("Arms of the experiment", columns, cells)
    return [Section("arms", "Arms", tuple(words), tables=(table,), blocks=tuple(blocks))]


def _family(run: Run) -> list[Section]:
    columns = _columns(
        "bucket",
        ("from M", "number"),
        ("to M", "number"),
        ("tuned at", "number"),
        "uses",
        ("verdict", "badge"),
        ("default µs", "number"),
        ("best µs", "number"),
        ("speedup", "number"),
        ("why", "long"),
    )
    columns.insert(9, Column("run", link="#run-"))
    cells = [
        (
            text(row.get("bucket")),
            text(row.get("low")),
            text(row.get("high")),
            text(row.get("tuned_at")),
            text(row.get("uses")),
            text(row.get("verdict")),
            us(number((row.get("baseline") or {}).get("us"))),
            us(number((row.get("best") or {}).get("us"))),
            interval(row.get("speedup")),
            text(row.get("run")),
            text(row.get("why")),
        )
        for row in run.document.get("buckets") or []
    ]
    return [Section("buckets", "Buckets", tables=(Table("Buckets of the family", columns, cells),))]


# --- cells --------------------------------------------------------------------------------------------------------


def _columns(*named: str | tuple[str, Kind]) -> list[Column]:
    return [Column(one) if isinstance(one, str) else Column(*one) for one in named]


def _documents(caption: str, rows: _Rows) -> Table:
    """Whatever a document lists, a column a name."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Table(caption, [Column(name) for name in names], [[text(row.get(name)) for name in names] for row in rows])
