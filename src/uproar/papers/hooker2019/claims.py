"""Claims of Hooker et al. 2019, "A benchmark for interpretability methods in deep neural networks": see claims.toml."""

from uproar.claims.registry import read_claims

read_claims("hooker2019", __file__)
