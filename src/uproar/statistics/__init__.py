"""Every inference of the package: intervals, comparisons, variance components, resampling, correlations."""
