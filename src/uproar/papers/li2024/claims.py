"""Claims of Li et al. 2024 (TMLR), on soundness and completeness of feature attribution: see claims.toml."""

from uproar.claims.registry import read_claims

read_claims("li2024", __file__)
