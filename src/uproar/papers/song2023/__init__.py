"""Song et al. 2023: pitfalls of ROAR."""

from uproar.papers.claims import read_claims
from uproar.papers.song2023 import measures  # noqa: F401  its claims name them

read_claims("song2023", __file__)
