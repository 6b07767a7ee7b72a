"""torchft's lighthouse, by the interpreter that has it: it reads its own arguments."""

import sys

from torchft._torchft import lighthouse_main

if __name__ == "__main__":
    sys.exit(lighthouse_main())
