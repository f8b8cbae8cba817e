"""The door of `python -m dputils.run`."""

import sys

from dputils.book.run import main

if __name__ == "__main__":
    sys.exit(main())
