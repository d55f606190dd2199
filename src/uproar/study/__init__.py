"""Studies: the specification, the plan of jobs, their executors, the steps of a cell, the collection of results."""

from importlib import import_module

from uproar.registry import load_later

# tasks, networks and maps of the board are declared when a name is asked for that nobody else has declared
load_later.append(lambda: import_module("uproar.study.board_heldout"))
load_later.append(lambda: import_module("uproar.study.board_natural"))
load_later.append(lambda: import_module("uproar.study.board_suite"))
