"""Hooker et al. 2019: ROAR and KAR."""
