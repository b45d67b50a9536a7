"""Whatever a stranger's file holds: it is read or refused in words, starts nothing, writes nothing elsewhere, and ends.

Every parser of what comes from others is a row of `PARSERS`. `make fuzz` tries 10,000 files with each.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotuner.bundles import archive
from autotuner.bundles.documents import SuiteManifest, SuiteProblem
from autotuner.errors import AutotuneError, Bug
from autotuner.iree.tools import Tools
from autotuner.jobs.nightly.plan import read_plan
from autotuner.jobs.nightly.run import read as read_history
from autotuner.jobs.suite.load import load as load_suite
from autotuner.microkernels.loader import load as load_manifest
from autotuner.problems.operations import OPERATIONS
from autotuner.programs import onnx_worker
from autotuner.programs.imports import import_benchmark
from autotuner.programs.inputs import load_array
from autotuner.registry import Registry
from autotuner.report.compare import compare, open_set
from autotuner.report.history import run_records
from autotuner.specfiles.entries import read_spec, read_text
from autotuner.specfiles.flagfile import RULES, Flagfile
from autotuner.specfiles.vetting import vet_program
from autotuner.store.exports import export_csv, export_json, export_records
from autotuner.store.imports import import_file
from autotuner.store.store import Store
from autotuner.system.process import temporary
from autotuner.system.workspace import LARGEST
from autotuner.tuning.unbundling import BundleResult
from tests.bundles.documents import MANIFEST, REPORT, plain
from tests.fuzz.guard import bounded, watched
from tests.fuzz.mangle import ODD, as_json, mangled, zipped
from tests.jobs.nightly.test_plan import GOOD as NIGHTLY
from tests.support.logs import line
from tests.support.won_run import won_run

FEW = 200
"""Files for each parser in the test suite."""
CASES = int(os.environ.get("AUTOTUNE_FUZZ", "0"))
"""Files for each parser; 0: the few of the test suite, always the same."""
ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "jobs" / "model" / "examples"
SPECS = ROOT / "tests" / "specfiles" / "examples"
KERNELS = ROOT / "specs" / "microkernels"


@dataclass(frozen=True)
class Parser:
    """One reader of strangers' files."""

    file: str
    """The name that the file has."""
    files: Callable[[], st.SearchStrategy[bytes]]
    read: Callable[[Path], object]
    starts: bool = False
    """It starts IREE's programs."""


def texts(*found: Path | bytes) -> list[bytes]:
    return [one if isinstance(one, bytes) else one.read_bytes() for one in found]


# --- readers -------------------------------------------------------------------------------------------------------


def read_registry(path: Path) -> None:
    for one in Registry.read(path).entries:
        one.distance(OPERATIONS["gemm"].smallest())
        if one.spec:
            one.entry.key.encode()


def read_shape(path: Path) -> None:
    """Words of a command line, one an option: `gemm`, then `shape=…`."""
    words = path.read_text(errors="surrogateescape").split("\n")
    operation = OPERATIONS.get(words[0], OPERATIONS["gemm"])
    options = dict(word.partition("=")[::2] for word in words[1:])
    known = {name: text for name, text in options.items() if name in (*operation.options(), "shape")}
    assert operation.from_words(known).flops > 0


def read_bundle(path: Path) -> None:
    if archive.is_suite(path):
        unpacked = archive.unpack(path, path.parent)
        SuiteManifest.read(unpacked.document(archive.SUITE, file=path), str(path))
        return
    BundleResult.read(path)


def read_export(path: Path) -> None:
    """All that `import` writes, and what is exported of it."""
    database = path.with_suffix(".imported.db")
    database.write_bytes(stored().empty)
    with Store.open(f"sqlite:///{database}", workspace=path.parent) as store:
        import_file(store, path)
        export_csv(export_records(store))


def read_database(path: Path) -> None:
    """All that `history`, `export` and `compare` print."""
    with Store.open(f"sqlite:///{path}", workspace=path.parent, create=False) as store, store.intact():
        run_records(store, store.runs())
        records = export_records(store)
        export_csv(records), export_json(records)
    golden = open_set(str(path))
    compare(golden, golden)


def read_onnx(path: Path) -> None:
    """What autotune does in a process of its own."""
    child = os.fork()
    if not child:
        try:
            onnx_worker.main(path, path.with_suffix(".out.mlir"))
        except Exception:
            os._exit(1)
        finally:
            os._exit(0)
    try:
        os.waitpid(child, 0)
    except BaseException:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise


# --- files ---------------------------------------------------------------------------------------------------------


def shapes() -> st.SearchStrategy[bytes]:
    seeds = [
        b"gemm\nshape=64x64x64\ndtype=f16\nbatch=2\nepilogue=bias,relu\nlayout=nt",
        b"conv\nshape=1x8x8x4\nfilter=3x3x4\nstride=2x2\npad=1x1\ngroups=2",
        b"attention\nshape=1x2x16x16x8\ncausal=true",
    ]
    return mangled(seeds, (b"x", b"f8", b"gelu", b"scale", b"1048577"))


def flagfiles() -> st.SearchStrategy[bytes]:
    seed = b'--iree-hal-target-device=local\n--iree-opt-level=O3\n"--iree-codegen-tuning-spec-path=a b.mlir"\n'
    return mangled([seed], (*(name.encode() for name in RULES), b"@x", b"--iree-hal-executable-object-search-path=/"))


def manifests() -> st.SearchStrategy[bytes]:
    keys = ("operation", "dtypes", "grid", "symbol", "values", "bindings", "objects", "provider", "zeroed")
    values = ("1", "1.5", "true", '""', "[[]]", "{a = 1}", '["m"]', "1979-05-27", "nan")
    typed = (f"{key} = {value}\n".encode() for key in keys for value in values)
    words = (*typed, b"[objects]\n", b"m // 0", b"m ** m", b"1 << 99", b"(m if m else n)", b"m.real")
    return mangled(texts(*sorted(KERNELS.glob("*/microkernel.toml"))), words)


def logs() -> st.SearchStrategy[bytes]:
    return mangled([f"{line()}\n{line(m=0)}\n{line(a='bf16_r', b='bf16_r')}\n".encode()], (b"&a ", b"*a", b"!!", b": "))


def commands() -> st.SearchStrategy[bytes]:
    seed = b"convfp16 -n 16 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1\ngemmfp16 --a_w 32 --a_h 64 --b_w 128\n"
    bench = (
        b"hipblaslt-bench -m 64 -n 32 -k 16 --bias_vector -r f16_r\nrocblas-bench -f gemm -m 8 -n 4 -k 16 --beta=1\n"
    )
    return mangled([seed, bench], (b" -F 4", b" --transB 1", b" --scaleA 3"))


def tables() -> st.SearchStrategy[bytes]:
    seeds = [
        b"M,N,K,bias,dtype,outdtype,scaleAB\n16,1536,7168,True,torch.bfloat16,torch.bfloat16,False\n",
        (
            b"Validator,PT_VERSION,2.8.0\nGemmTunableOp_BFloat16_TN,tn_1280_32_8192_ld_8192_8192_1280,Default,0.01\n"
            b"ScaledGemmTunableOp_Float8_e4m3fn_Float8_e5m2_BFloat16_TN,tn_64_96_128_ld_128_128_64_rw_1_bias_Half,Default,1\n"
        ),
    ]
    return mangled(seeds, (b"_B_7_", b"torch.float64", b"cu_num,", b'"'))


def lists() -> st.SearchStrategy[bytes]:
    return mangled(texts(MODELS.parents[1] / "suite" / "examples" / "shapes.csv"), (b"conv,", b"op,shape\n", b'""'))


def specs() -> st.SearchStrategy[bytes]:
    seeds = texts(*sorted(SPECS.glob("*.mlir")), *sorted((ROOT / "specs" / "h200").glob("*.mlir"))[:3])
    words = (b"transform.apply_registered_pass", b"#hal.executable.object<{data = dense<0> : vector<1xi8>}>", b"affine")
    return mangled(
        seeds,
        (
            *words,
            b"@__kernel_config",
            b"!transform.any_op",
            b"vector<1x",
            b"{-#",
            b"tuple<" * 3000,
            b"- " * 3000,
            b"( // )\n" * 3000,
        ),
    )


def programs() -> st.SearchStrategy[bytes]:
    seeds = texts(MODELS / "three.mlir", MODELS / "conv.mlir", MODELS / "weights.mlir")
    return mangled(seeds, (b"tensor<?x", b"util.func", b"dense<", b"#map", b"hal.executable.variant", b"module {"))


def onnx_files() -> st.SearchStrategy[bytes]:
    return mangled(
        texts(MODELS / "exported" / "onnx_qdq.onnx", MODELS / "exported" / "onnx_dynamic.onnx"), (b"MatMul",)
    )


def bundles() -> st.SearchStrategy[bytes]:
    manifest, report = plain(MANIFEST), plain(REPORT)
    suite = SuiteManifest("20260101-000000-abcdef", "s", "s.csv", "0" * 64, "cpu", (SuiteProblem(MANIFEST.problem, 1),))
    one = zipped({archive.MANIFEST: [manifest], archive.RESULT: [report]}, foreign=b"x")
    return one | zipped({archive.SUITE: [json.loads(suite.to_bytes())]}, foreign=b"x")


def nightly_files() -> st.SearchStrategy[bytes]:
    return mangled([NIGHTLY.encode()], (b'page = "/x.html"\n', b'"../x"', b"[[parts]]\n", b'golden = "/"\n', b"[]\n"))


def nights() -> st.SearchStrategy[bytes]:
    entry = {"night": "2026-01-01", "part": "unet", "status": "finished", "time": "2026-01-01T00:00:00", "command": []}
    return as_json([entry, {**entry, "figures": [{}], "failures": [{}], "environment": {}}])


def registries() -> st.SearchStrategy[bytes]:
    lines = (ROOT / "registry" / "entries" / "nvidia-h200.jsonl").read_bytes().splitlines(keepends=True)
    return mangled([b"".join(lines[:2]), *lines[2:6]], (b'"spec": ["module {"]', b'"low": NaN', b'"flags": ["-o"]'))


@dataclass(frozen=True)
class Stored:
    """A database with a run, its export, and a database without any."""

    database: bytes
    export: str
    empty: bytes


@cache
def stored() -> Stored:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results" / "autotune.db"

        def whole() -> bytes:
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
            return file.read_bytes()

        with Store.open(None, workspace=Path(folder)):
            pass
        empty = whole()
        with Store.open(None, workspace=Path(folder)) as store:
            won_run(store)
            exported = export_json(export_records(store))
        return Stored(whole(), exported, empty)


COLUMN = [*(one for one in ODD if one is None or isinstance(one, float | str)), b"\xff", "{", "[1]", '{"us": 1}', -1]


@st.composite
def databases(draw: st.DrawFn) -> bytes:
    """One with odd values in some columns, or with bytes changed anywhere."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(stored().database)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(draw(st.integers(0, 3))):
        table = draw(st.sampled_from(tables))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        value = draw(
            st.sampled_from([one for one in ODD if isinstance(one, float | str | None)] + [b"\xff", "{", "[1]"])
        )
        with closing(connection.cursor()) as cursor:
            changed = f"UPDATE OR IGNORE {table} SET {draw(st.sampled_from(columns))} = ?"
            try:
                cursor.execute(changed, (value,))
            except (sqlite3.Error, UnicodeError):
                continue
    connection.commit()
    whole = connection.serialize()
    connection.close()
    return draw(mangled([whole])) if draw(st.integers(0, 3)) == 0 else whole


def exports() -> st.SearchStrategy[bytes]:
    return as_json([json.loads(stored().export)])


def arrays() -> st.SearchStrategy[bytes]:
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 8), np.float32))
    words = (b"'|O'", b"(1000000000000,)", b"(-1,)", b"'descr': [('a', '<f4')]", b"__import__('os')")
    return mangled([whole.getvalue()], words)


PARSERS = {
    "shapes": Parser("words.txt", shapes, read_shape),
    "flagfiles": Parser("x.flags", flagfiles, Flagfile.read),
    "manifests": Parser("kernel/microkernel.toml", manifests, lambda path: load_manifest(path, OPERATIONS)),
    "logs": Parser("x.yaml", logs, lambda path: load_suite(str(path))),
    "commands": Parser("x.txt", commands, lambda path: load_suite(str(path))),
    "tables of products": Parser("a8w8_gemm.csv", tables, lambda path: load_suite(str(path))),
    "lists of shapes": Parser("x.csv", lists, lambda path: load_suite(str(path))),
    "specs": Parser("x.mlir", specs, lambda path: read_spec(read_text(path))),
    "models": Parser("x.mlir", programs, lambda path: vet_program(path, Tools.find()), starts=True),
    "dispatches": Parser("x_benchmark.mlir", specs, lambda path: import_benchmark(path, path.parent, name="x")),
    "onnx": Parser("x.onnx", onnx_files, read_onnx, starts=True),
    "arrays": Parser("x.npy", arrays, lambda path: load_array(path, str(path))),
    "bundles": Parser("x.zip", bundles, read_bundle),
    "exports": Parser("x.json", exports, read_export),
    "databases": Parser("x.db", databases, read_database),
    "nightly files": Parser("x.toml", nightly_files, read_plan),
    "nights": Parser("x.jsonl", nights, read_history),
    "registries": Parser("x.jsonl", registries, read_registry),
}


SIZED = {
    "flagfiles": "flagfile",
    "manifests": "manifest",
    "lists of shapes": "list of shapes",
    "specs": "spec",
    "dispatches": "dispatch",
    "exports": "export",
    "nightly files": "nightly file",
    "nights": "history of nights",
    "registries": "registry",
}


@pytest.mark.parametrize(("name", "kind"), SIZED.items())
def test_a_file_that_is_too_large_is_refused_before_it_is_read(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / PARSERS[name].file
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate((LARGEST[kind] << 20) + 1)
    with bounded():
        assert f"larger than a {kind} may be: {LARGEST[kind]} MiB" in (refusal_of(PARSERS[name], path) or "")
    assert SIZED.keys() <= PARSERS.keys()
    assert {*SIZED.values()} == {*LARGEST}


def refusal_of(parser: Parser, path: Path) -> str | None:
    """What autotune says of the file; None: it takes it. Anything else is a traceback."""
    try:
        parser.read(path)
    except Bug:
        raise
    except AutotuneError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", PARSERS)
def test_any_file_is_read_or_refused_in_words(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser, folder = PARSERS[name], tmp_path_factory.mktemp("fuzz")
    path = folder / parser.file
    path.parent.mkdir(exist_ok=True)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    @settings(max_examples=CASES or FEW, database=None, derandomize=not CASES, suppress_health_check=list(HealthCheck))
    @given(parser.files())
    def holds(data: bytes) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        with watched(folder) as seen:
            said = refusal_of(parser, path)
        assert said is None or 0 < len(said) < 2000
        assert not seen.outside
        assert parser.starts or not seen.started

    with temporary("fuzz-", folder):  # this process's own watcher, which it starts once, is no program of a file's
        pass
    with bounded():
        holds()
    assert os.listdir(folder / "elsewhere") == []
