"""`python -m mocaps` is `mocaps`."""

import sys

from mocaps.cli import main

if __name__ == "__main__":
    sys.exit(main())
