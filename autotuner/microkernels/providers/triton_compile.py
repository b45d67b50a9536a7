"""Run as a program: compiles the Triton kernel in a folder, without a GPU, and leaves its object there.

It stands by itself, so that it starts at once and nothing of autotune is there when a kernel's source is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOB, SOURCE, RESULT, OBJECT = "job.json", "kernel_source.py", "result.json", "kernel.object"
ALIGNED = 16
PTX_VERSION = 86
"""The PTX version of drivers from CUDA 12.7 on; Triton's default is that of its own ptxas. LLVM then uses no later
instruction."""
_NEWEST_FOR_IT = 100
"""The newest compute capability that this PTX version has; for later ones Triton chooses."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True, slots=True)
class Job:
    """The input of the compiling process, beside the source."""

    symbol: str
    chip: str
    warp: int
    """Threads of a warp."""
    pointers: int
    """The number of pointer parameters (operands and scratch), which come first."""
    signature: dict[str, str]
    """Parameters in order, with Triton's type names."""
    constexprs: dict[str, int | None]
    """Constexprs by name; None stands for a pointer that this problem does not have."""
    aligned: list[tuple[int, int]]
    """Positions of pointers and sizes, each with the power of two up to 16 that divides it: loads become that wide."""
    options: dict[str, int]

    @property
    def backend(self) -> str:
        return "hip" if self.chip.startswith("gfx") else "cuda"

    @property
    def arguments(self) -> int:
        """The number of pointers and constants that IREE passes."""
        return len(self.signature) - len(self.constexprs)


# --- Of the objects -------------------------------------------------------------------------------------------------


def trim_ptx(text: str, symbol: str, keep: int, *, pointers: int = 0, alignment: int = 0) -> str:
    """PTX with only the first `keep` parameters of its entry; those that Triton adds must be unused.

    With an `alignment` the first that Triton adds, its scratch, is used: it goes behind the pointers, as parameters are
    read by name, and is rounded up where it is read: IREE aligns buffers to less.
    """
    blanked = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    header = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^()]*)\)", blanked)
    if header is None:
        raise ValueError(f"the PTX has no entry {symbol}")
    declarations = header[1].split(",") if header[1].strip() else []
    own = declarations[keep : keep + bool(alignment)]
    for declaration in declarations[keep + len(own) :]:
        name = _parameter(declaration)
        if _named(name).search(blanked[header.end() :]):
            raise ValueError(f"the kernel uses memory ({name}) that neither its manifest nor Triton's report has")
    if len(declarations) < keep + bool(alignment):
        raise ValueError(f"the PTX has {len(declarations)} parameters, not {keep + bool(alignment)}")
    kept = [*declarations[:pointers], *own, *declarations[pointers:keep]]
    kept = [declaration.strip() for declaration in kept]
    body = text[header.end(1) :]
    for declaration in own:
        read = re.compile(rf"(ld\.param\.[bu]64\s+(%\w+),\s*\[{re.escape(_parameter(declaration))}\];)")
        body, count = read.subn(rf"\1\n\tadd.s64 \2, \2, {alignment - 1};\n\tand.b64 \2, \2, -{alignment};", body)
        if count == 0 or count != len(_named(_parameter(declaration)).findall(blanked[header.end() :])):
            raise ValueError("the PTX reads Triton's scratch in a way that is not known")
    return text[: header.start(1)] + "\n\t" + ",\n\t".join(kept) + "\n" + body


def _parameter(declaration: str) -> str:
    name: str = re.findall(r"[\w$%.]+", declaration.partition("[")[0])[-1]
    return name


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")


def trim_amdgcn(text: str, llvm: str, symbol: str, keep: int) -> str:
    """The same for AMD's assembly, whose metadata lists the arguments; their uses are found in the LLVM IR."""
    function = re.search(rf"^define [^\n]*@{re.escape(symbol)}\(([^\n]*)\{{\n(.*?)^\}}", llvm, re.S | re.M)
    # Chips without accumulation registers have no number of them before the arguments.
    listed = re.search(r"^(?:    |  - )\.args:\s*\n((?:      .*\n)+)", text, re.M)
    if function is None or listed is None:
        raise ValueError(f"the assembly has no kernel {symbol}")
    entries = re.split(r"(?m)^(?=      - )", listed[1])[1:]
    explicit = [entry for entry in entries if "hidden_" not in entry]
    for number in range(keep, len(explicit)):
        if re.search(rf"%{number}\b", function[2]):
            raise ValueError("the kernel uses scratch memory of Triton's own, which is for NVIDIA's chips only")
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
    """Runs the job in this folder and writes the object and `result.json` there."""
    os.environ |= {"TRITON_CACHE_DIR": str(folder / "triton"), "TRITON_DISABLE_LINE_INFO": "1"}
    _forget_the_key()
    job = Job(**json.loads((folder / JOB).read_text()))
    spec = importlib.util.spec_from_file_location("kernel_source", folder / SOURCE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SOURCE} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel_source"] = module
    sys.path.insert(0, str(folder))  # what the source imports of its own lies beside it
    spec.loader.exec_module(module)
    kernel = _compile(job, getattr(module, job.symbol))
    scratch = int(getattr(kernel.metadata, "global_scratch_size", 0))  # older ones for AMD do not speak of it
    alignment = int(kernel.metadata.global_scratch_align) if scratch else 0
    if job.backend == "cuda":
        text = trim_ptx(kernel.asm["ptx"], job.symbol, job.arguments, pointers=job.pointers, alignment=alignment)
        data = text.encode()
    else:
        data = _trimmed_hsaco(job, kernel)
    (folder / OBJECT).write_bytes(data)
    report = {"shared": int(kernel.metadata.shared), "scratch": scratch, "alignment": alignment}
    (folder / RESULT).write_text(json.dumps(report))


def _forget_the_key() -> None:
    """Triton tells entries of its cache apart by a hash of itself, half a gigabyte; this cache ends with the build."""
    module: Any = importlib.import_module("triton.runtime.cache")
    module.triton_key = str


def _target(job: Job) -> Any:
    target = importlib.import_module("triton.backends.compiler").GPUTarget
    if job.backend == "hip":
        return target("hip", job.chip, job.warp)
    return target("cuda", int(job.chip.removeprefix("sm_").rstrip("af")), 32)


def _source_type(compiler: Any, function: Any) -> Any:
    """Gluon, Triton's language of layouts and barriers, is read by a class of its own."""
    if function.is_gluon():
        return importlib.import_module("triton.experimental.gluon._runtime").GluonASTSource
    return compiler.ASTSource


def _compile(job: Job, function: Any) -> Any:
    compiler = importlib.import_module("triton.compiler")
    aligned = {(position,): [["tt.divisibility", divisor]] for position, divisor in job.aligned}
    source = _source_type(compiler, function)(function, job.signature, constexprs=job.constexprs, attrs=aligned)
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


def cause(error: BaseException) -> str:
    """A Triton error in one line: Triton chains one for each function on the way, with its source."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    place = f"{lines[0]} " if len(lines) > 1 and lines[0].startswith("at ") else ""
    return place + lines[-1]


if __name__ == "__main__":
    try:
        compile_job(Path(sys.argv[1]))
    except Exception as error:
        sys.stderr.write(f"error: {cause(error)}\n")
        raise
