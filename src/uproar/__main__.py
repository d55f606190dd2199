"""`python -m uproar`."""

from uproar.cli import main

main()
