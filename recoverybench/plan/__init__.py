"""What to run: suites and options to cells, and the parts that they name."""
