"""What the entries of a first user are worth to a second one with the same chip.

    python -m benchmarks.second_user OUT.jsonl MODEL… --target sm_80 --budget 75 --short 30

Each model is tuned as a first user does, who knows nothing; what wins becomes entries of a registry. Then, in a
workspace and with a cache of their own each: `apply`, with `ab default FLAGS` behind it, which times what it wrote; and
`model` with a short budget, with that registry and without. One line a model; those that have one are not run again.
The entries stay beside OUT.jsonl, in registry/MODEL.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from autotuner.system import process
from benchmarks.machine import machine

Said = dict[str, Any]
_AIR = 90.0
"""Seconds beyond a budget after which a command is killed."""


class User:
    """Somebody with a workspace and a cache of their own."""

    def __init__(self, folder: Path, name: str, registry: Path | None) -> None:
        self.workspace = folder / name
        told = {"AUTOTUNE_CACHE_DIR": folder / f"{name}-cache", "AUTOTUNE_REGISTRY": registry or "none"}
        self._command = ["env", *(f"{key}={value}" for key, value in told.items()), sys.executable, "-m", "autotuner"]

    def says(self, *words: str, budget: float = 60.0) -> Said:
        """The command's document, with its seconds as a user has to wait."""
        began = time.monotonic()
        command = [*self._command, *words, "--json", "--workspace", str(self.workspace)]
        done = process.run(command, timeout=budget + _AIR)
        waited = {"waited": round(time.monotonic() - began, 1)}
        try:
            return {**json.loads(done.stdout), **waited}
        except ValueError:
            return {"verdict": f"exit {done.code}: {process.last_line(done.why())}", **waited}


def line_of(model: Path, target: str, budget: float, short: float, *, registry: Path) -> Said:
    with tempfile.TemporaryDirectory() as place:
        folder, words = Path(place), (str(model), "--target", target)
        first = User(folder, "first", None)
        full = first.says("model", *words, "--budget", f"{budget:.0f}s", budget=budget)
        found = {"model": model.name, "target": target, "budget": budget, "full": told(full)}
        if full.get("verdict") != "win":
            return found
        first.says("registry", "add", str(full["run"]), "-o", str(registry))
        second = User(folder, "second", registry)
        applied = second.says("apply", *words)
        found |= {"apply": told(applied)}
        if applied.get("flagfile"):
            flags = ("default", str(applied["flagfile"]), "--model")
            found |= {"applied": told(second.says("ab", *flags, *words, "--budget", f"{budget:.0f}s", budget=budget))}
        for name, known in (("known", registry), ("unknown", None)):
            said = User(folder, name, known).says("model", *words, "--budget", f"{short:.0f}s", budget=short)
            found |= {name: told(said)}
        return found


def told(said: Said) -> Said:
    return {name: said.get(name) for name in ("verdict", "speedup", "waited", "seconds", "reason")}


def gain(one: Said | None) -> str:
    if not one:
        return ""
    speedup = (one.get("speedup") or {}).get("median")
    return (
        f"{one['verdict']} {speedup:.2f}x, {one['waited']:.0f} s"
        if speedup
        else f"{one['verdict']}, {one['waited']:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds of the first user's tuning")
    parser.add_argument("--short", type=float, default=30.0, help="seconds of the second user's")
    given = parser.parse_args()
    kept = [json.loads(text) for text in given.out.read_text().splitlines()] if given.out.is_file() else []
    for model in given.models:
        if model.name not in {one["model"] for one in kept}:
            registry = given.out.absolute().parent / "registry" / model.stem
            kept.append(line_of(model, given.target, given.budget, given.short, registry=registry))
            with given.out.open("a") as file:
                file.write(f"{json.dumps(kept[-1])}\n")
    names = ("full", "apply", "applied", "known", "unknown")
    print(
        machine(),
        f"\n\n| model | full tuning | apply | ab of it | {given.short:.0f} s, known | {given.short:.0f} s, unknown |",
    )
    print("|---|---|---|---|---|---|")
    for one in kept:
        print(f"| {one['model']} | {' | '.join(gain(one.get(name)) for name in names)} |")


if __name__ == "__main__":
    main()
