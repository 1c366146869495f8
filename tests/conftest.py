"""The checkout comes last on the path: for the demo project, never before an installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
