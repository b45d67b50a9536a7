"""Records docs/first-hour.md: clones the repository, runs each command as a newcomer would, writes what was printed.

`python -m benchmarks.first_hour` takes about ten minutes, needs the network (pip) and a quiet machine. It
rewrites results/reference/first-hour, docs/first-hour.md, and the listing of the README that is from it. Nothing
is written where the model does not win: there would be nothing to use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autotuner.devices.environment import capture
from autotuner.iree.tools import Tools

ROOT = Path(__file__).parents[1]
REFERENCE = Path("results") / "reference" / "first-hour"
FOLDER = Path(tempfile.gettempdir()) / "first"
"""Its name is in what the commands print."""
MODEL = "docs/examples/attention.mlir"
FLAGS = "specs/attention-cpu.flags"
INPUTS = "--input=1x256x512xf32 --input=512x1536xf32 --input=512x512xf32"
TIME = f"iree-benchmark-module --module=attention-cpu.vmfb --device=local-task --function=main {INPUTS}"
COMMANDS: Mapping[str, str] = {
    "demo": "make demo",
    "model": f"autotune model {MODEL} --budget 4m",
    "shape": "autotune gemm --shape 512x512x1024 --dtype f32 --budget 2m",
    "history": "autotune history",
    "use": "",
    "benchmark": f"{TIME} --benchmark_min_time=0.5s",
    "ab": f"autotune ab default {FLAGS} --model {MODEL} --budget 90s",
}
"""In the order of the document; what `use` is, the model's result says."""
_BUSY = 2.0
"""From so much load on each core others use the machine, too."""
_README: Mapping[str, tuple[str, ...]] = {"model": ("verdict", "default", "best", "outputs", "flags", "use")}
_AB = ("verdict", "model", "A", "B", "speedup", "outputs", "next")


@dataclass(frozen=True)
class Recorded:
    """What each command printed, on what machine."""

    printed: Mapping[str, str]
    """By name of COMMANDS: the command behind a dollar sign, and its output."""
    machine: str
    cores: int
    loads: tuple[float, ...]

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """What was recorded before."""
        printed = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in COMMANDS}
        where = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
        return cls(printed, where["machine"], where["cores"], tuple(where["loads"]))

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.printed.items():
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        where = {"machine": self.machine, "cores": self.cores, "loads": self.loads}
        (folder / "machine.json").write_text(f"{json.dumps(where)}\n", encoding="utf-8")

    @property
    def load(self) -> str:
        low, high = min(self.loads), max(self.loads)
        return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"

    @property
    def busy(self) -> bool:
        return max(self.loads) > _BUSY * self.cores


def record(folder: Path) -> Recorded:
    """Runs everything in a fresh clone in this folder."""
    clone = folder / "autotune"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    settings = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    settings |= {"AUTOTUNE_CACHE_DIR": str(folder / "cache"), "PATH": f"{clone}/.venv/bin:{settings['PATH']}"}
    printed: dict[str, str] = {}
    loads: list[float] = []
    for name, fixed in COMMANDS.items():
        command = fixed or line_of(printed["model"], "use")
        print(f"$ {command}", file=sys.stderr)
        loads.append(os.getloadavg()[0])
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=clone,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed[name] = f"$ {command}\n{_own(done.stdout) if name == 'demo' else done.stdout}"
        if done.returncode:
            raise SystemExit(f"{printed[name]}\nexit code {done.returncode}: nothing is recorded")
        if name == "model" and not line_of(printed[name], "verdict").startswith("win"):
            raise SystemExit(f"{printed[name]}\nthe model does not win: try again on a quieter machine")
    here = capture("local-task", Tools.find())
    return Recorded(printed, f"{here['cpu']}, {here['cores']} cores", here["cores"], tuple(loads))


def _own(text: str) -> str:
    """What make and autotune print; pip's own lines are the machine's affair."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if "autotune gemm" in line), len(lines))
    return "\n".join([*(line for line in lines[:start] if re.match(r"python3 |\.venv/", line)), *lines[start:]]) + "\n"


def line_of(text: str, word: str) -> str:
    """What stands behind a word at the beginning of a line; empty: there is none."""
    found = re.search(rf"^{re.escape(word)} +(.*)$", text, re.M)
    return found[1] if found else ""


def elided(text: str, keep: Callable[[str], object]) -> str:
    """The command, and of its output the lines to keep; `…` stands for those between."""
    command, *lines = text.rstrip("\n").split("\n")
    out = [command]
    for line in lines:
        if keep(line):
            out.append(line)
        elif out[-1] != "…":
            out.append("…")
    return "\n".join(out)


def result_of(text: str) -> str:
    """The command and its result: what is printed on the way is left out."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("verdict")), len(lines))
    kept = iter([n >= first for n in range(1, len(lines))])
    return elided(text, lambda _: next(kept))


def beginning(words: Collection[str]) -> Callable[[str], bool]:
    return lambda line: line.split(" ")[0] in words


def document(recorded: Recorded) -> str:
    """The text of docs/first-hour.md."""
    printed = recorded.printed
    shown = {name: text.rstrip("\n") for name, text in printed.items()}
    shown |= {name: result_of(printed[name]) for name in ("demo", "shape", "model")}
    shown["benchmark"] = elided(printed["benchmark"], lambda line: line.startswith(("---", "Benchmark ", "BM_")))
    shown["ab"] = elided(printed["ab"], beginning(_AB))
    verdicts = {name: line_of(printed[name], "verdict").partition(":")[0] for name in ("demo", "model", "shape", "ab")}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template("first_hour.md.j2").render(
        shown=shown,
        verdicts=verdicts,
        machine=recorded.machine,
        load=recorded.load,
        busy=recorded.busy,
        decomposed="decomposed" in line_of(printed["model"], "best"),
        kernels=bool(line_of(printed["model"], "kernels")),
        flags_alone=not line_of(printed["model"], "spec") and not line_of(printed["model"], "kernels"),
        shape_spec=bool(line_of(printed["shape"], "spec")),
    )


def readme(text: str, recorded: Recorded) -> str:
    """The README with the listing of this hour."""
    for name, words in _README.items():
        block = elided(recorded.printed[name], beginning(words)).replace("\n…\n", "\n", 1)
        before, head, rest = text.partition(f"```\n$ {COMMANDS[name]}\n")
        _, end, after = rest.partition("\n```")
        if not head or not end:
            raise SystemExit(f"README.md has no listing of `{COMMANDS[name]}`")
        text = f"{before}```\n{block}{end}{after}"
    return text


def write(recorded: Recorded, root: Path = ROOT) -> None:
    recorded.write(root / REFERENCE)
    (root / "docs" / "first-hour.md").write_text(document(recorded), encoding="utf-8")
    page = root / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8"), recorded), encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"a new folder to clone into [{FOLDER}]")
    folder: Path = parser.parse_args(words).folder.absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise SystemExit(f"{folder} is there already: remove it, or give another --folder") from None
    try:
        write(record(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
