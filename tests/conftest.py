"""The checkout comes last on the path: for the demo project, never before an installed package."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).resolve().parent.parent))

settings.register_profile("anywhere", deadline=None)  # machines are slow at times
settings.load_profile("anywhere")
