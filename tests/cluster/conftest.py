"""The servers of a cluster are to be had for Linux."""

from __future__ import annotations

import sys

collect_ignore = [] if sys.platform == "linux" else ["test_rounds.py"]
