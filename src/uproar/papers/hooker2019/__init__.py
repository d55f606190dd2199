"""Hooker et al. 2019: ROAR and KAR."""

from uproar.papers.claims import read_claims

read_claims("hooker2019", __file__)
