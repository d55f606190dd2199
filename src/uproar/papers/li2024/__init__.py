"""Li et al. 2024: soundness and completeness."""
