"""The event stream of `sluice serve` as a listener hears it.
Usage: serve_streams_test.py SLUICE [TEST...]"""
import contextlib, time, unittest

from serve_case import Events, Server, main


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--demo", "gpu-falls-off").__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.began = time.monotonic()

    def test_snapshots_come_at_the_requested_interval(self):
        with Events(self.server, "?interval=0.5") as events:
            self.assertEqual(events.status, 200)
            self.assertTrue(events.header["Content-Type"].startswith("text/event-stream"))
            first = events.next("snapshot")["data"]
            began = time.monotonic()
            second = events.next("snapshot")["data"]
            self.assertGreater(second["sequence"], first["sequence"])
            self.assertLess(time.monotonic() - began, 3)

    def test_events_can_be_resumed_behind_the_last_one_seen(self):
        with Events(self.server, "?interval=0&last_event_id=0-0") as events:
            seen = events.next("xid", "health", "alert")
            self.assertIn("id", seen)
        epoch, number = seen["id"].split("-")
        before = f"{epoch}-{int(number) - 1}"
        with Events(self.server, "?interval=0", f"Last-Event-ID: {before}\r\n") as events:
            self.assertEqual(events.next()["id"], seen["id"])

    def test_a_listener_that_does_not_read_delays_no_other(self):
        with contextlib.ExitStack() as open_streams:
            for _ in range(20):
                s = open_streams.enter_context(contextlib.closing(self.server.connect()))
                s.sendall(b"GET /v1/events?interval=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            slowest = 0
            for _ in range(50):
                began = time.monotonic()
                self.server.get("/health")
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.01)
            self.assertLess(slowest, 0.5)

    def test_bad_intervals_are_refused(self):
        for query in ("?interval=0.01", "?interval=x", "?intervall=1"):
            with Events(self.server, query) as events:
                self.assertEqual(events.status, 400, query)


if __name__ == "__main__":
    main()
