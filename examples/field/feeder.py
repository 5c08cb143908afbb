"""The physics behind the field devices of this folder: a feeder whose current rises by 1 A each second while its
breaker is closed, as if one load after another were switched on. An open breaker lets nothing through.

It follows its own clock (``time.monotonic``), as firmware does; in a session that is virtual time.
"""

import threading
import time


class Feeder:
    def __init__(self):
        self._lock = threading.Lock()
        self._closed_at_s = time.monotonic()
        self._closed = True

    @property
    def closed(self):
        with self._lock:
            return self._closed

    def current_a(self):
        with self._lock:
            return time.monotonic() - self._closed_at_s if self._closed else 0.0

    def switch(self, closed):
        """The breaker is told to close or to open."""
        with self._lock:
            if closed and not self._closed:
                self._closed_at_s = time.monotonic()
            self._closed = closed
        print("breaker %s" % ("closed" if closed else "open"), flush=True)


class Protection:
    """What a station does about it: opens the breaker above a limit, and closes it again some seconds later."""

    def __init__(self, limit_a=20.0, wait_s=10.0):
        self.limit_a, self.wait_s = limit_a, wait_s
        self._opened_at_s = None

    def decide(self, current_a):
        """``True`` or ``False`` to close or open the breaker, ``None`` to leave it."""
        print("current %.3f A" % current_a, flush=True)
        now_s = time.monotonic()
        if self._opened_at_s is None and current_a > self.limit_a:
            self._opened_at_s = now_s
            print("above %.0f A: open" % self.limit_a, flush=True)
            return False
        if self._opened_at_s is not None and now_s >= self._opened_at_s + self.wait_s:
            print("close again after %.3f s" % (now_s - self._opened_at_s), flush=True)
            self._opened_at_s = None
            return True
        return None
