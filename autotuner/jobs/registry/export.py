"""A registry's tuning specs as IREE's tree has them: a default spec of a chip, and the lit test beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY
from autotuner.carriers.render import MARKER
from autotuner.errors import EnvironmentFailure, NoCandidateError
from autotuner.iree.compile import DISPATCHES, Compile, compile_program, first_error
from autotuner.iree.mlir import parse, symbol, walk
from autotuner.iree.tools import Tools
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.registry import Registry, RegistryEntry
from autotuner.specfiles.merge import merge
from autotuner.system import process
from autotuner.system.files import write_whole
from autotuner.system.templates import render
from autotuner.targets import Target
from autotuner.targets.backends.base import TUNING_SPEC

APPLIED = "__tuning_spec_applied__"
"""What IREE's own default specs leave on an operation."""
_PIPELINE = (
    "builtin.module(hal.executable(hal.executable.variant(iree-hal-configure-target-executable-variants{target=%s})))"
)
"""The pass that configures dispatches, as IREE's tests of default specs run it."""
_SECONDS = 120.0


@dataclass(frozen=True)
class Exported:
    """The written files."""

    spec: Path
    test: Path
    entries: tuple[RegistryEntry, ...]
    tested: tuple[str, ...]
    """The problems of the test: a model's dispatch has no program of its own."""


@dataclass(frozen=True)
class _Part:
    backend: str
    problem: str
    function: str
    executable: str


def export(registry: Registry, target: Target, folder: Path, tools: Tools) -> Exported:
    """Writes `iree_default_tuning_spec_<chip>.mlir`, and `spec_<chip>.mlir` that tests it."""
    own = [one for one in registry.entries if one.chip == target.name and one.spec and not one.flags]
    if not own:
        raise NoCandidateError(
            f"the registry has no tuning spec for {target.name} that applies without other flags.",
            remedy="A default spec holds the compiler's own code only: microkernels and flags cannot be exported.",
        )
    name = f"iree_default_tuning_spec_{target.name}"
    spec, test = folder / f"{name}.mlir", folder / f"spec_{target.name}.mlir"
    merged = merge(["\n".join(one.spec) for one in own], tools=tools, force=True).text
    write_whole(spec, f"// RUN: iree-opt %s\n\n{_said(own)}\n{_as_default(merged, name)}", _ours)
    problems = [one.of for one in own if one.of is not None]
    parts = [_part(problem, target, tools) for problem in problems]
    backend = parts[0].backend if parts else target.backend.name
    flags = [
        *([] if target.backend.on_host else [f"--iree-gpu-test-target={target.name}"]),
        f"--pass-pipeline={_PIPELINE % backend}",
        "--iree-codegen-test-notify-transform-strategy-application",
    ]
    write_whole(test, render("iree_default_test.mlir.j2", flags=flags, spec=spec.name, module=name, parts=parts), _ours)
    for words in ([spec], ["--split-input-file", "--verify-diagnostics", *flags, f"{TUNING_SPEC}={spec}", test]):
        done = process.run([tools.iree_opt, *words], timeout=_SECONDS)
        if not done.ok:
            remedy = "Please report it with the registry."
            raise EnvironmentFailure(f"iree-opt refuses what is exported: {first_error(done.stderr)}", remedy=remedy)
    if done.stdout.count(APPLIED) < len(parts):  # iree-opt's remark is there for what matches nothing, too
        raise NoCandidateError("an entry does not apply to its own problem.", remedy="Run `autotune registry check`.")
    return Exported(spec, test, tuple(own), tuple(problem.name for problem in problems))


def _ours(path: Path) -> bool:
    return path.read_text(encoding="utf-8", errors="replace").startswith("// RUN: iree-opt")


def _said(entries: Iterable[RegistryEntry]) -> str:
    """Where each entry comes from: in a default spec that is a comment."""
    lines = [f"{one.problem}: {one.median:.2f}x on {one.sku}, IREE {one.iree}, {one.date}" for one in entries]
    return "".join(f"// {line}\n" for line in lines)


def _as_default(text: str, name: str) -> str:
    """With the module's name and the mark of IREE's default specs, and without ours."""
    with ir.Context() as context:
        module = parse(text, context)
        module.operation.attributes["sym_name"] = ir.StringAttr.get(name)
        for op in walk(module.operation):
            if ENTRY in op.attributes:
                del op.attributes[ENTRY]
            if op.name == "transform.annotate" and ir.StringAttr(op.attributes["name"]).value == MARKER:
                op.attributes["name"] = ir.StringAttr.get(APPLIED)
        return str(module) + "\n"


def _part(problem: Problem, target: Target, tools: Tools) -> _Part:
    """The problem's dispatch as it is before configurations are chosen; on a GPU the test's flag says which chip."""
    flags = (*problem.flags, *target.compile_flags)
    with process.temporary("autotune-") as folder, ir.Context() as context:
        job = Compile(problem_mlir(problem), flags, _SECONDS, stop=DISPATCHES)
        module = ir.Module.parse(compile_program(job, tools, folder).checked().vmfb.read_bytes(), context=context)
        executable = next(op for op in module.body.operations if op.operation.name == "hal.executable").operation
        variant = next(op for op in walk(executable) if op.name == "hal.executable.variant")
        settings = str(variant.attributes["target"])
        if not target.backend.on_host:
            variant.attributes["target"] = ir.Attribute.parse(f"{settings.partition(', {')[0]}>")
        function = next(op for op in walk(executable) if op.name == "func.func")
        text = str(executable.get_asm(use_local_scope=True))
        return _Part(settings.split('"')[1], problem.name, symbol(function), text)
