"""The compiler's facts of a processor, read from its executable targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from iree.compiler import ir

from autotuner.errors import EnvironmentFailure
from autotuner.iree.mlir import parse, text_context, walk


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """The facts of the processor that the compiler compiles for."""

    vector_bytes: int
    vector_registers: int
    calls_mmt4d: bool = False
    """Products of packed operands call IREE's mmt4d ukernel."""


def executable_target(text: str) -> str:
    """The target that the compiler chose, from the configured dispatches of any program."""
    with ir.Context() as context:
        for op in walk(parse(text, context).operation):
            if op.name == "hal.executable.variant":
                return str(op.attributes["target"])
    raise EnvironmentFailure(
        "iree-compile made no executable for this problem.", remedy="Run `autotune doctor` and check --flag."
    )


def read_cpu_facts(text: str) -> CpuFacts:
    """Vector width and registers, from the target of the configured dispatches."""
    with text_context():
        table = target_table(executable_target(text))
        triple = ir.StringAttr(table["target_triple"]).value
        x86 = triple.startswith(("x86_64", "i386", "i686"))
        return CpuFacts(
            vector_bytes=int(ir.IntegerAttr(table["native_vector_size"]).value),
            vector_registers=16 if x86 and "avx512f" not in _features(table) else 32,
            calls_mmt4d=_calls_mmt4d(table, triple),
        )


def _calls_mmt4d(table: Mapping[str, ir.Attribute], triple: str) -> bool:
    """Whether ukernels are enabled: unset means `default`, which is mmt4d on these two architectures."""
    enabled = ir.StringAttr(table["ukernels"]).value if "ukernels" in table else "default"
    if enabled == "default":
        return triple.startswith(("x86_64", "aarch64"))
    return enabled == "all" or "mmt4d" in enabled.split(",")


@lru_cache(maxsize=64)
def read_features(executable_target: str) -> frozenset[str]:
    """The features of an executable target's processor, by LLVM's names; none for an empty text."""
    if not executable_target:
        return frozenset()
    with text_context():
        return _features(target_table(executable_target))


def read_processor(executable_target: str) -> tuple[str, str]:
    """The name and the features of the processor that an executable target is for."""
    with text_context():
        table = target_table(executable_target)
        return ir.StringAttr(table["cpu"]).value, ir.StringAttr(table["cpu_features"]).value


def target_table(executable_target: str) -> Any:
    """The settings of an executable target; a handwritten one may have none."""
    begins, ends = executable_target.find("{"), executable_target.rfind("}")
    body = executable_target[begins : ends + 1] if 0 <= begins < ends else "{}"
    return ir.DictAttr(ir.Attribute.parse(body))


def _features(table: Any) -> frozenset[str]:
    words = ir.StringAttr(table["cpu_features"]).value.split(",")
    return frozenset(word.removeprefix("+") for word in words if word.startswith("+"))
