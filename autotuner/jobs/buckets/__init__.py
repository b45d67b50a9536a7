"""One spec for a GEMM whose M varies: a configuration for each range of M."""

from autotuner.jobs.buckets.bounds import Bucket, Family
from autotuner.jobs.buckets.result import FamilyResult
from autotuner.jobs.buckets.run import plain_only, tune_family

__all__ = ["Bucket", "Family", "FamilyResult", "plain_only", "tune_family"]
