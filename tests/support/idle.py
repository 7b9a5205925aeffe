"""A process that does nothing, and does not notice that anybody has gone."""

import time

time.sleep(3600)
