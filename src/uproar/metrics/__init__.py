"""Numbers from numbers: areas under curves, and verdicts from replicates. No model, no files."""
