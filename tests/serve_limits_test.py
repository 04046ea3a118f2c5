"""What `sluice serve` does with requests that are too large, too slow, too many or nonsense.
Usage: serve_limits_test.py SLUICE [TEST...]"""
import contextlib, os, time, unittest

from serve_case import Server, heard, main, status_of, wait_for


def fd_limit():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def memory_of(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--set", "serve.request_timeout_s=1", "--set", "serve.idle_timeout_s=2",
                            "--set", "serve.max_header_bytes=4096", "--set",
                            "serve.max_body_bytes=4096").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def test_too_large_requests_are_refused(self):
        field = b"X: " + b"x" * 8192
        self.assertEqual(status_of(self.server.raw(
            b"GET /health HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n")), 431)
        self.assertEqual(
            self.server.ask("/v1/alerts/silence", "POST", {"rule": "x" * 8192})[0], 413)
        self.assertEqual(status_of(self.server.raw(
            b"POST /v1/alerts/silence HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
            b"\r\nContent-Length: 99999999999\r\n\r\n")), 413)

    def test_nonsense_is_answered_with_400(self):
        for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n",
                         b"GET / HTTP/1.1\r\nBad Field: x\r\n\r\n",
                         b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"):
            self.assertEqual(status_of(self.server.raw(nonsense)), 400, nonsense)
        for lines in (b"GET / HTTP/1.1\nHost: localhost\n\n", b"GET /health HTTP/1.0\n\n"):
            answer = self.server.raw(lines)
            self.assertEqual(status_of(answer), 400, answer)
            self.assertIn(b"ends in LF alone", answer)
        self.assertEqual(status_of(self.server.raw(b"GET / HTTP/3.0\r\nHost: a\r\n\r\n")), 505)

    def test_a_slow_request_times_out_and_delays_no_other(self):
        with contextlib.ExitStack() as slow:
            crawling = [slow.enter_context(contextlib.closing(self.server.connect()))
                        for _ in range(50)]
            for s in crawling:
                s.sendall(b"GET /health HTTP/1.1\r\n")
            end, slowest = time.monotonic() + 1, 0
            while time.monotonic() < end:
                for s in crawling:
                    with contextlib.suppress(OSError):
                        s.send(b"X")
                began = time.monotonic()
                self.server.get("/health")
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.05)
            self.assertLess(slowest, 0.5)
            for s in crawling:
                answer = heard(s)
                self.assertIn(status_of(answer), (0, 408))
            self.assertIn("sluice_http_timeouts_total 5", self.server.ask("/metrics")[2])

    def test_a_thousand_idle_connections_cost_little_and_delay_no_other(self):
        if fd_limit() < 2200:
            self.skipTest("this shell may not open 2200 files (ulimit -n)")
        patient = Server("--set", "serve.request_timeout_s=30", "--set", "serve.idle_timeout_s=30")
        with patient as server, contextlib.ExitStack() as idle:
            wait_for("it is ready", lambda: server.ask("/health/ready")[0] == 200)
            before = memory_of(server.process.pid)
            for _ in range(1000):
                idle.enter_context(contextlib.closing(server.connect()))
            wait_for("they are open",
                     lambda: server.get("/performance-metrics")["server"]["connections"] > 1000)
            took = []
            for _ in range(5):
                began = time.monotonic()
                server.get("/health")
                took.append(time.monotonic() - began)
            self.assertLess(min(took), 0.2, took)
            self.assertLess(memory_of(server.process.pid) - before, 30 << 20)


if __name__ == "__main__":
    main()
