"""`python -m vtare.cli`: the command line without the check of limits that `vtare.start` makes."""

from vtare.cli import main

main()
