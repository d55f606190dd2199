"""Runs: a study carried out or opened again, and the folder it leaves."""
