"""`python -m ren`."""

import sys

from ren.cli import main

sys.exit(main())
