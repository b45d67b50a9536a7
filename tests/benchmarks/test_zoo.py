"""The zoo's command: what a row says, how the table is made, and that what is done is not done again."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from autotuner.system.process import Finished
from benchmarks.zoo import __main__, rows
from benchmarks.zoo.nets import NETS


def _finished(code: int, stdout: str = "", stderr: str = "") -> Finished:
    return Finished(code, stdout, stderr, 12.34, False)


def _document(**more: object) -> str:
    found: dict[str, object] = {"run": "r", "verdict": "win", "cause": None, "reason": "faster"}
    found |= {"reference": {"default_is_right": True}}
    found |= {"speedup": {"median": 2.0}, "baseline": {"us": 100.0}, "best": {"us": 50.0}}
    return json.dumps(found | more)


def test_a_row_says_what_ships_and_why_nothing_does() -> None:
    won = rows.judged(_finished(0, _document()))
    assert (won["verdict"], won["us"], won["speedup"], won["default_right"]) == ("win", 50.0, 2.0, True)
    lost = rows.judged(_finished(0, _document(verdict="no-winner")))
    assert (lost["verdict"], lost["us"], lost["speedup"]) == ("no-winner", 100.0, 1.0)
    refused = rows.judged(_finished(2, stderr="importing\nautotune: IREE's importer does not\ntake it. Mend it."))
    assert (refused["reads"], refused["reason"]) == (False, "IREE's importer does not take it. Mend it.")
    assert rows.judged(_finished(1, stderr="autotune: this is a bug of autotune: KeyError: 1."))["verdict"] == "bug"


def test_the_table_has_a_line_for_each_network_and_the_mean_of_those_beside_a_library() -> None:
    made = {"how": "onnx", "dtype": "f32"}
    fast = {"network": "a", **made, **rows.judged(_finished(0, _document())), "library_us": 100.0}
    slow = {"network": "b", **made, **rows.judged(_finished(0, _document())), "library_us": 25.0}
    gone = {"network": "c", **made, "verdict": "not made", "not_made": "no torch"}
    *_, a, b, c, _, counted, mean = rows.table([fast, slow, gone]).splitlines()
    assert a == "| a | onnx, f32 | yes | yes | win | 2.00x | 0.50 | 12 | faster |"
    assert "| 2.00x | 2.00 |" in b
    assert c == "| c | onnx, f32 | – | – | not made | – | – | 0 | no torch |"
    assert counted == "3 networks: 1 not made, 2 win."
    assert mean.endswith("geometric mean of 2: 1.00.")


@pytest.mark.skipif(find_spec("torch") is not None, reason="with torch it would tune the network")
def test_what_has_a_row_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "cpu.jsonl"
    monkeypatch.setattr(sys, "argv", ["zoo", "--only", "gru", "--folder", str(tmp_path)])
    __main__.main()
    assert "not made | – | – | 0 | no torch |" in capsys.readouterr().out
    found.write_text(found.read_text() + '{"network": "gru')  # a kill cut it short
    __main__.main()
    assert found.read_text().count("no torch") == 1
    assert "no torch" in capsys.readouterr().out
    found.write_text(found.read_text()[:30])
    __main__.main()
    assert list(rows.read(found)) == ["gru_any_tokens"]


def test_there_are_forty_networks_and_each_is_made_by_a_function_that_is_there() -> None:
    assert len({net.name for net in NETS}) == len(NETS) >= 40
    folder = Path(__main__.__file__).parent
    for net in NETS:
        module, _, function = net.make.partition(".")
        if net.how == "stablehlo":
            assert (folder / net.make).is_file()
        elif net.how != "mlir":
            assert f"def {function}(" in (folder / f"{module}.py").read_text()
