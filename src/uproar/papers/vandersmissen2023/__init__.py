"""Vandersmissen and Oramas 2023: coherency of metrics."""

from uproar.papers.claims import read_claims

read_claims("vandersmissen2023", __file__)
