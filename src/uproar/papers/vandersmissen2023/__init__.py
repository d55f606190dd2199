"""Vandersmissen and Oramas 2023: coherency of metrics."""
