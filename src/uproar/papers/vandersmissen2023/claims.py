"""Claims of Vandersmissen and Oramas 2023, on the coherency of evaluations of visual explanations: see claims.toml."""

from uproar.claims.registry import read_claims

read_claims("vandersmissen2023", __file__)
