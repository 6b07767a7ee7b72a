"""`python -m recoverybench` is the command `recoverybench`."""

from recoverybench.cli import main

if __name__ == "__main__":
    main()
