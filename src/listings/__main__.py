"""``python -m listings``."""

import sys

from listings.main import main

sys.exit(main())
