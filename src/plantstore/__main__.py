"""`python -m plantstore` is `plantstore`."""

import sys

from plantstore.cli import main

sys.exit(main())
