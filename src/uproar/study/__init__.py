"""Studies: what to compare, what is still to be done, where it runs, what came out."""
