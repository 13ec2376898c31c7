"""What all tests share: the real programs, and how many examples a property gets."""

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["support.fixtures", "support.cluster_fixtures"]

# Deadlines measure the machine, not the code: a slow example is no failure here.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("test", _COMMON, max_examples=200)
settings.register_profile("long", _COMMON, max_examples=20_000)
settings.load_profile("long" if os.environ.get("BIREME_LONG") else "test")

# What a shell runs in the background ignores Ctrl-C, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
