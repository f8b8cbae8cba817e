"""The door of `python -m dputils.sweep`."""

import sys

from dputils.book.sweep import main

if __name__ == "__main__":
    sys.exit(main())
