"""When a study that spends replicates as it goes is looked at."""

LOOKS = (3, 5, 8, 13, 20)
"""Numbers of replicates, planned before the first look is taken."""
