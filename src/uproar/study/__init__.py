"""Studies: the specification, the plan of jobs, their executors, the steps of a cell, the collection of results."""
