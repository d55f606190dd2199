"""What the names that hand-made tables use stand for."""

from uproar.statistics.design import BASELINE, MODEL_FREE

ROLES = {BASELINE: "random", **dict.fromkeys(MODEL_FREE, "baseline"), "oracle": "truth", "label_cue": "truth"}
"""Names that are not here are methods."""
