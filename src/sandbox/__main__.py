"""``python -m sandbox``."""

import sys

from sandbox.server import main

sys.exit(main())
