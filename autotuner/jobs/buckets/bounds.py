"""Ranges of M: their bounds, where each is tuned, and where its winner must not be slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from autotuner.errors import UsageError
from autotuner.problems import Gemm
from autotuner.problems.base import MAX_DIM
from autotuner.problems.operation import whole_number

ANY = "any"


@dataclass(frozen=True, slots=True)
class Bucket:
    """M from `low` to `high`, or without an end."""

    low: int
    high: int | None
    at: int
    """The M that it is tuned at."""

    @property
    def name(self) -> str:
        return ANY if self.high is None else str(self.high)

    @property
    def rows(self) -> tuple[int, int | None]:
        return self.low, self.high

    @property
    def text(self) -> str:
        if self.high is None:
            return f"M >= {self.low}"
        return f"M = {self.low}" if self.low == self.high else f"M {self.low} to {self.high}"

    @property
    def members(self) -> tuple[int, ...]:
        """Sizes that stand for all: the smallest, a middle one, and where it is tuned.

        A product of one row is a matrix-vector product to the compiler, which the entry of a range does not match.
        """
        least = min(max(self.low, 2), self.at)
        return tuple(sorted({least, (least + self.at) // 2, self.at}))

    def __contains__(self, m: int) -> bool:
        return self.low <= m and (self.high is None or m <= self.high)


@dataclass(frozen=True, slots=True)
class Family:
    """A GEMM of fixed N and K, and the ranges of its M."""

    gemm: Gemm
    buckets: tuple[Bucket, ...]

    @classmethod
    def parse(cls, gemm: Gemm, text: str) -> Family:
        """From `--bucket-m 16,32,any`.

        `any` is tuned at --shape's M where that is beyond the bounds, else at twice the last one.
        """
        if gemm.epilogue or gemm.scaling:
            raise UsageError("--bucket-m is for a plain product.", remedy="Leave out --epilogue and scales.")
        words = [word.strip() for word in text.split(",")]
        endless = words[-1] == ANY
        bounds = [whole_number(word, f"--bucket-m {text!r}:") for word in (words[:-1] if endless else words)]
        if any(smaller >= larger for smaller, larger in pairwise(bounds)):
            raise UsageError(f"--bucket-m {text!r} does not rise.", remedy="Give bounds of M, such as 16,32,64,any.")
        buckets = [Bucket(low + 1, high, at=high) for low, high in pairwise([0, *bounds])]
        if endless:
            last = bounds[-1] if bounds else 0
            buckets.append(Bucket(last + 1, None, at=gemm.m if gemm.m > last else 2 * last))
        if (most := buckets[-1].at) > MAX_DIM:
            raise UsageError(f"--bucket-m {text!r}: {most} is larger than {MAX_DIM}.", remedy="Give smaller bounds.")
        return cls(gemm, tuple(buckets))

    @property
    def name(self) -> str:
        gemm = self.gemm
        out = f"_{gemm.out}" if gemm.out else ""
        batch = f"{gemm.batch}x" if gemm.batch > 1 else ""
        return f"gemm_{batch}Mx{gemm.n}x{gemm.k}_{gemm.dtype}_{gemm.acc}{out}_{gemm.layout}"

    @property
    def home(self) -> Bucket:
        """Where --shape's own M falls; the last where it is beyond all bounds."""
        return next((bucket for bucket in self.buckets if self.gemm.m in bucket), self.buckets[-1])

    def member(self, m: int) -> Gemm:
        return replace(self.gemm, m=m)

    def entry_name(self, bucket: Bucket) -> str:
        """A name for the bucket's matcher."""
        span = f"{bucket.low}_up" if bucket.high is None else f"{bucket.low}_{bucket.high}"
        return self.name.replace("M", f"M_{span}_", 1)

    def arguments(self) -> tuple[str, ...]:
        """The command-line words that give this family again."""
        return (*self.gemm.arguments(), "--bucket-m", ",".join(bucket.name for bucket in self.buckets))
