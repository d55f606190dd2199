"""Li et al. 2024: soundness and completeness."""

from uproar.papers.claims import read_claims
from uproar.papers.li2024 import synthetic  # noqa: F401  its claims name it

read_claims("li2024", __file__)
