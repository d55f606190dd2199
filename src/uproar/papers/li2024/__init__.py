"""Li et al. 2024: soundness and completeness."""

from uproar.papers.claims import read_claims

read_claims("li2024", __file__)
