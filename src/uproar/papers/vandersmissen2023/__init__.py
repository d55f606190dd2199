"""Vandersmissen and Oramas 2023, the coherency of metrics."""
