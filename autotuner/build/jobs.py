"""A build as plain data: what a worker is asked, and what it answers.

Both are JSON: texts, flags, bytes and content keys. There is no path in them that only the asking machine can read. The
key is the contract: whoever would build something else (by another IREE, for another processor, or because a file that
a flag names is another one there) refuses the job.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotuner.build.builder import HOST, Builder, BuildJob
from autotuner.carriers.calls import KernelCall
from autotuner.carriers.microkernel import executable_target
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import CONFIGURED, Compile, Compiled, inspect
from autotuner.iree.figures import Isa
from autotuner.iree.processor import read_processor
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets.backends.llvm_cpu import CPU_FLAG, LLVM_CPU

Document = Mapping[str, Any]
_SECONDS = 60.0
_ANSWERED = ("failure", "stderr", "seconds", "text", "binary", "repeat", "cached", "took", "applied", "lasting")


def explicit(job: BuildJob, tools: Tools) -> BuildJob:
    """The job that gives the same code on any machine: it names the processor that `host` means on this one."""
    host = f"{CPU_FLAG}={HOST}"
    named = [word for flag in job.flags for word in (_processor(tools) if flag == host else (flag,))]
    return replace(job, flags=tuple(named))


@lru_cache(maxsize=4)
def _processor(tools: Tools) -> tuple[str, str]:
    """The compiler says what it takes this processor for."""
    source, flags = problem_mlir(Gemm.parse(shape="8x8x8", dtype="f32")), LLVM_CPU.flags(HOST)
    text = inspect(Compile(source, flags, _SECONDS, stop=CONFIGURED), tools).text
    cpu, features = read_processor(executable_target(text))
    return f"{CPU_FLAG}={cpu}", f"{CPU_FLAG}-features={features}"


def job_to_json(job: BuildJob, *, key: str) -> Document:
    """The job, and the key that the asking machine has for it."""
    if isinstance(job.program, Path):
        raise ValueError("a whole model is compiled where its file lies")
    plain = {field.name: getattr(job, field.name) for field in fields(job)}
    return {
        **plain,
        "key": key,
        "flags": list(job.flags),
        "dumps": list(job.dumps),
        "files": [[name, base64.b64encode(data).decode()] for name, data in job.files],
        "expected": asdict(job.expected) if job.expected else None,
        "kernels": [{**asdict(kernel), "marker": list(kernel.marker)} for kernel in job.kernels],
    }


def job_from_json(document: Document) -> BuildJob:
    plain = {field.name: document[field.name] for field in fields(BuildJob)}
    return BuildJob(
        **{
            **plain,
            "flags": tuple(document["flags"]),
            "dumps": tuple(document["dumps"]),
            "files": tuple((name, base64.b64decode(data)) for name, data in document["files"]),
            "expected": CompilationInfo(**document["expected"]) if document["expected"] else None,
            "kernels": tuple(KernelCall(k["name"], tuple(k["marker"]), k["launch"]) for k in document["kernels"]),
        }
    )


def read_answer(job: BuildJob, builder: Builder, answer: Document, *, key: str) -> Compiled:
    """What came of the job; its module is put into this machine's cache, unless it is there already."""
    cache = builder.cache
    made = Compiled(
        **{name: answer[name] for name in _ANSWERED},
        key=key,
        command=job.by_hand(builder.tools),
        isa=Isa.from_json(answer["isa"]),
        vmfb=cache.module(key),
    )
    if answer["module"] is not None and cache.read(key) is None:
        cache.store(key, made.record(), vmfb=base64.b64decode(answer["module"]))
    return made


def failed_answer(document: Document, why: str) -> dict[str, Any]:
    """The answer to a job that nobody could finish; the next run tries it again."""
    made = Compiled("compile-error", why, 0.0, (), Path(), repeat=document["repeat"], lasting=False)
    return _answer(made, None)


def work(document: Document, builder: Builder | None = None) -> Document:
    """Builds what is asked with this machine's programs and cache, and answers."""
    own = builder or Builder(Tools.find(), Cache(cache_dir()))
    job = job_from_json(document)
    if own.key(job) != document["key"]:
        raise EnvironmentFailure(
            "this machine would build something else: its IREE, its processor or a file that a flag names differs.",
            remedy="Install the same IREE, and put files that --flag names where all machines find them.",
        )
    made = own.build(job)
    return _answer(made, base64.b64encode(made.vmfb.read_bytes()).decode() if made.vmfb.is_file() else None)


def _answer(made: Compiled, module: str | None) -> dict[str, Any]:
    return {**{name: getattr(made, name) for name in _ANSWERED}, "isa": made.isa.to_json(), "module": module}
