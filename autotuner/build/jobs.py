"""A build as plain data: what another process or machine is asked, and what it answers.

Both are JSON: texts, flags, bytes and content keys. There is no path in them that only the asking machine can read. The
key is the contract: whoever would build something else (by another IREE, for another processor, or because a file that
a flag names is another one there) refuses the job.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from autotuner.build.builder import Builder, BuildJob
from autotuner.carriers.calls import KernelCall
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import Compiled
from autotuner.iree.isa import Isa
from autotuner.iree.tools import Tools
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir

_ANSWERED = ("failure", "stderr", "seconds", "binary", "repeat", "key", "cached", "took", "applied", "lasting")


def job_to_json(job: BuildJob, *, key: str) -> dict[str, Any]:
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


def job_from_json(document: Mapping[str, Any]) -> BuildJob:
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


def answer_to_json(made: Compiled) -> dict[str, Any]:
    """What came of a build, with the module's bytes."""
    module = base64.b64encode(made.vmfb.read_bytes()).decode() if made.ok else None
    plain = {name: getattr(made, name) for name in _ANSWERED}
    return {**plain, "command": list(made.command), "isa": made.isa.to_json(), "module": module}


def answer_from_json(document: Mapping[str, Any], cache: Cache) -> Compiled:
    """The same here: its module is put into this machine's cache, unless it is there already."""
    made = Compiled(
        **{name: document[name] for name in _ANSWERED},
        command=tuple(document["command"]),
        isa=Isa.from_json(document["isa"]),
        vmfb=cache.module(document["key"]),
    )
    if document["module"] is not None and cache.read(made.key) is None:
        with cache.scratch() as folder:
            vmfb = folder / made.vmfb.name
            vmfb.write_bytes(base64.b64decode(document["module"]))
            cache.store(made.key, made.record(), vmfb=vmfb)
    return made


def work(document: Mapping[str, Any], builder: Builder | None = None) -> dict[str, Any]:
    """Builds what is asked with this machine's programs and cache, and answers."""
    own = builder or Builder(Tools.find(), Cache(cache_dir()))
    job = job_from_json(document)
    if own.key(job) != document["key"]:
        raise EnvironmentFailure(
            "this machine would build something else: its IREE, its processor or a file that a flag names differs.",
            remedy="Install the same IREE, and put files that --flag names where all machines find them.",
        )
    return answer_to_json(own.build(job))
