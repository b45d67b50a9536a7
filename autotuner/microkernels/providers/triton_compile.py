"""Run as a program: compiles the Triton kernel in a folder, without a GPU, and leaves its object there.

It stands by itself, so that it starts at once and nothing of autotune is there when a kernel's source is run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOB, SOURCE, RESULT = "job.json", "kernel_source.py", "result.json"
ALIGNED = 16
PTX_VERSION = 86
"""What drivers from CUDA 12.7 on know; Triton would write its own ptxas's. LLVM then uses no later instruction."""
_NEWEST_FOR_IT = 100
"""Later chips need a later PTX: Triton chooses."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True, slots=True)
class Job:
    """All that the compiling process is told, beside the source."""

    symbol: str
    chip: str
    warp: int
    """How many threads go in step."""
    signature: dict[str, str]
    """Every parameter, in order, with its type in Triton's words."""
    constexprs: dict[str, int | None]
    """None: a pointer that is not there."""
    aligned: list[int]
    """Positions of pointers to, and sizes of, multiples of 16."""
    options: dict[str, int]

    @property
    def backend(self) -> str:
        return "hip" if self.chip.startswith("gfx") else "cuda"

    @property
    def arguments(self) -> int:
        """Pointers and constants: what IREE passes."""
        return len(self.signature) - len(self.constexprs)


# --- Of the objects -------------------------------------------------------------------------------------------------


def trim_ptx(text: str, symbol: str, keep: int) -> str:
    """The text whose entry has just its first `keep` parameters; the others, Triton's scratch, must be unused."""
    blanked = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    header = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^()]*)\)", blanked)
    if header is None:
        raise ValueError(f"the PTX has no entry {symbol}")
    declarations = header[1].split(",") if header[1].strip() else []
    for declaration in declarations[keep:]:
        name = re.findall(r"[\w$%.]+", declaration.partition("[")[0])[-1]
        if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", blanked[header.end() :]):
            raise ValueError(f"the kernel uses scratch memory ({name}), which IREE does not give it")
    if len(declarations) < keep:
        raise ValueError(f"the PTX has {len(declarations)} parameters, not {keep}")
    return text[: header.start(1)] + ",".join(declarations[:keep]).rstrip() + "\n" + text[header.end(1) :]


def trim_amdgcn(text: str, llvm: str, symbol: str, keep: int) -> str:
    """The same for AMD's assembly: the arguments stand in its metadata, their uses are read off the LLVM IR."""
    function = re.search(rf"^define [^\n]*@{re.escape(symbol)}\(([^\n]*)\{{\n(.*?)^\}}", llvm, re.S | re.M)
    listed = re.search(r"^    \.args:\s*\n((?:      .*\n)+)", text, re.M)
    if function is None or listed is None:
        raise ValueError(f"the assembly has no kernel {symbol}")
    entries = re.split(r"(?m)^(?=      - )", listed[1])[1:]
    explicit = [entry for entry in entries if "hidden_" not in entry]
    for number in range(keep, len(explicit)):
        if re.search(rf"%{number}\b", function[2]):
            raise ValueError("the kernel uses scratch memory, which IREE does not give it")
    # What the driver fills in is listed also where nothing reads it; what is read has its place, after a gap now.
    hidden = entries[len(explicit) :] if "implicitarg.ptr" in llvm else []
    text = text[: listed.start(1)] + "".join(explicit[:keep] + hidden) + text[listed.end(1) :]
    if hidden:
        return text
    ends = [
        sum(int(re.findall(rf"\.{word}:\s*(\d+)", entry)[0]) for word in ("offset", "size"))
        for entry in explicit[:keep]
    ]
    end = max(ends)
    text = re.sub(r"(\.amdhsa_kernarg_size |\.kernarg_segment_size: +)\d+", rf"\g<1>{end}", text)
    # Registers that were preloaded with the scratch pointers stay unset; all others keep their places.
    return re.sub(
        r"(\.amdhsa_user_sgpr_kernarg_preload_length )(\d+)",
        lambda match: f"{match[1]}{min(int(match[2]), end // 4)}",
        text,
    )


# --- In the process that runs the source ----------------------------------------------------------------------------


def compile_job(folder: Path) -> None:
    """Reads the job in this folder and leaves the object and `result.json` there."""
    os.environ |= {"TRITON_CACHE_DIR": str(folder / "triton"), "TRITON_DISABLE_LINE_INFO": "1"}
    job = Job(**json.loads((folder / JOB).read_text()))
    spec = importlib.util.spec_from_file_location("kernel_source", folder / SOURCE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SOURCE} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel_source"] = module
    spec.loader.exec_module(module)
    kernel = _compile(job, getattr(module, job.symbol))
    warps = int(kernel.metadata.num_warps)
    if job.backend == "cuda":
        data = trim_ptx(kernel.asm["ptx"], job.symbol, job.arguments).encode()
    else:
        data = _trimmed_hsaco(job, kernel)
    name = f"kernel.{'ptx' if job.backend == 'cuda' else 'hsaco'}"
    (folder / name).write_bytes(data)
    report = {
        "file": name,
        "symbol": job.symbol,
        "shared": int(kernel.metadata.shared),
        "threads": job.warp * warps,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    (folder / RESULT).write_text(json.dumps(report))


def _target(job: Job) -> Any:
    target = importlib.import_module("triton.backends.compiler").GPUTarget
    if job.backend == "hip":
        return target("hip", job.chip, job.warp)
    return target("cuda", int(job.chip.removeprefix("sm_").rstrip("af")), 32)


def _compile(job: Job, function: Any) -> Any:
    compiler = importlib.import_module("triton.compiler")
    aligned = {(position,): [["tt.divisibility", ALIGNED]] for position in job.aligned}
    source = compiler.ASTSource(function, job.signature, constexprs=job.constexprs, attrs=aligned)
    options: dict[str, Any] = {**job.options, "enable_fp_fusion": True}
    target = _target(job)
    if job.backend == "hip" or target.arch > _NEWEST_FOR_IT:
        return compiler.compile(source, target=target, options=options)
    try:
        return compiler.compile(source, target=target, options={**options, "ptx_version": PTX_VERSION})
    except Exception as error:
        if type(error).__name__ != "PTXASError":
            raise
    return compiler.compile(source, target=target, options=options)  # it needs newer instructions


def _trimmed_hsaco(job: Job, kernel: Any) -> bytes:
    backend = importlib.import_module("triton.compiler").make_backend(_target(job))
    text = trim_amdgcn(kernel.asm["amdgcn"], kernel.asm["llir"], job.symbol, job.arguments)
    data: bytes = backend.make_hsaco(text, {}, backend.parse_options({**job.options, "enable_fp_fusion": True}))
    return data


if __name__ == "__main__":
    compile_job(Path(sys.argv[1]))
