"""One spec for a GEMM whose M varies: a configuration for each range of M."""

from autotuner.buckets.bounds import Bucket, Family
from autotuner.buckets.run import FamilyResult, tune_family

__all__ = ["Bucket", "Family", "FamilyResult", "tune_family"]
