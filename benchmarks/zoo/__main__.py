"""Networks as people export them, each tuned in a short budget beside another library; one table.

    python -m benchmarks.zoo --target host --budget 60 --python /opt/torch/bin/python
    python -m benchmarks.zoo --target sm_80 --budget 120 --limit-seconds 560    # again, until all are done
    python -m benchmarks.zoo --target host --table

Weights are seeded, nothing is downloaded. Files are exported into FOLDER/models by the Python that has torch
(`--python`); torchvision, timm, transformers, onnxruntime and iree-turbine make more networks. FOLDER/TARGET.jsonl gets
a line when a network is done, and those that have one are not run again: cut it at any time. The library is ONNX
Runtime on processors, with as many threads, and torch under a CUDA graph on GPUs. Where a network has no type of its
own, that is f32 on processors and f16 on GPUs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotuner.system import process
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from benchmarks.zoo import rows
from benchmarks.zoo.nets import NETS, Net

MAKING_SECONDS = 400.0
"""An export and the library's timing may take so long."""
ENDING_SECONDS = 60.0
"""A run may end so much later than its budget before it is killed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="host", help="as autotune has it; host: this processor")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of one network's tuning")
    parser.add_argument("--only", default="", help="networks of these names, or with such texts in them: resnet50,swin")
    parser.add_argument("--limit-seconds", type=float, help="begin no network that would end later")
    parser.add_argument("--folder", type=Path, default=Path("zoo"), help="for models, rows and workspaces")
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch")
    parser.add_argument("--again", action="store_true", help="networks that have a row, too")
    parser.add_argument("--table", action="store_true", help="print the table of the rows, run nothing")
    given = parser.parse_args()
    target = Target.parse("cpu" if given.target == "host" else given.target)
    folder, began = given.folder.absolute(), time.monotonic()
    found = folder / f"{target.name}.jsonl"
    names = {net.name for net in NETS}
    texts = given.only.split(",")
    chosen = [net for net in NETS if any(text == net.name if text in names else text in net.name for text in texts)]
    done = rows.read(found)
    for net in () if given.table else chosen:
        if net.name in done and not given.again:
            continue
        left = (given.limit_seconds or float("inf")) - (time.monotonic() - began)
        if left < given.budget + ENDING_SECONDS:
            print(f"no time left for {net.name}: run this again", file=sys.stderr)
            break
        row = one(net, target, folder, python=given.python, budget=given.budget)
        with found.open("a") as file:
            file.write(f"\n{json.dumps(row)}\n")  # behind a line that a kill cut short
        print(f"{time.monotonic() - began:6.0f} s  {net.name}: {row['verdict']}", file=sys.stderr, flush=True)
    done = rows.read(found)
    print(rows.table([done[net.name] for net in chosen if net.name in done]))


def one(net: Net, target: Target, folder: Path, *, python: str, budget: float) -> dict[str, Any]:
    """A network's row."""
    on_host = target.backend.on_host
    row = {"network": net.name, "how": net.how, "dtype": net.element(on_host=on_host), "target": target.name}
    words = [python, "-m", "benchmarks.zoo.making", net.name, str(folder / "models"), "--threads", str(usable_cores())]
    text = net.how in ("stablehlo", "mlir")
    words[0] = sys.executable if text else python  # a text needs this project's own templates
    made = process.run([*words, *([] if on_host else ["--gpu"])], timeout=MAKING_SECONDS)
    try:
        row |= json.loads(made.stdout.strip().rpartition("\n")[2])
    except ValueError:
        row["not_made"] = f"its maker failed: {process.last_line(made.why())}"
    if "not_made" in row:
        return row | {"verdict": "not made"}
    workspace = folder / "workspaces" / net.name
    inputs = [word for text in row.get("inputs", ()) for word in ("--input", text)]
    return row | {"budget": budget} | _tuned(row["file"], [*inputs, "--target", target.name], workspace, budget)


def _tuned(file: str, words: Sequence[str], workspace: Path, budget: float) -> dict[str, Any]:
    """By one command, in a workspace of its own: nothing is known of other networks."""
    shutil.rmtree(workspace, ignore_errors=True)
    command = [sys.executable, "-m", "autotuner", "model", file, *words, "--budget", f"{budget:.0f}s", "--json"]
    done = process.run([*command, "--workspace", str(workspace)], timeout=budget + ENDING_SECONDS)
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "stderr.txt").write_text(done.stderr)
    (workspace / "result.json").write_text(done.stdout)
    return rows.judged(done)


if __name__ == "__main__":
    main()
