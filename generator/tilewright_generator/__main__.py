"""`python -m tilewright_generator` is the `tilewright` command."""

from tilewright_generator.cli import main

main()
