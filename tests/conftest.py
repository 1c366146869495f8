"""The checkout comes last on the path: for the demo project, never before an installed package."""

import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).resolve().parent.parent))

# What a shell starts in the background ignores Ctrl-C, and so does all it starts: tests that send it would
# wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are slow at times, and what a run finds the next one must find as well. To look for more:
# pytest --hypothesis-profile=search
slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("search", deadline=None, suppress_health_check=slow)
settings.register_profile("anywhere", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("anywhere")
