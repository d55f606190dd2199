"""Metrics as other people's released code computes them, e.g. `road:leemann`: a module for each release."""
