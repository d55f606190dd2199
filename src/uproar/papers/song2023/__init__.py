"""Song et al. 2023: pitfalls of ROAR."""
