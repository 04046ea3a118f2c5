"""Texts that are no texts: bytes that are no UTF-8, and bodies of odd shapes, wherever a client may
put one. Each gets an answer at once, and none is a fault of the server."""
import contextlib, time, unittest, urllib.parse

from hostile.case import Server, heard, status_of, within

NO_TEXT = ("%ff", "%ed%a0%80", "%00", "%e2%82", "a" * 62 + "%e2%82%ac", "%f0%9f%98",
           "a" * 255 + "%e2%82%ac")
PLACES = ("/v1/history?metric=X", "/v1/history?from=X", "/v1/history?X=1", "/v1/leases?cursor=X",
          "/v1/leases?limit=X", "/v1/leases/X", "/v1/leases/timeline?before=X", "/X", "/assets/X",
          "/v1/trends?X=1", "/metrics?labels=X", "/v1/market/X", "/health?X")
LONG = 64 * 1024 - 100
BODIES = (b'{"agent":"\xff"}', b'{"agent":"\\ud800"}', b'{"agent":"\xed\xa0\x80"}', b"\xff",
          b'{"\xc3":1}', b'{"token":"\xc3\x28"}', b'{"agent":"' + b"a" * 63 + b'\xc3\xa9"}',
          b"{" + b",".join(b'"%05x":1' % i for i in range(6000)) + b"}",
          b'{"' + b"a" * LONG + b'":1}', b"{" + b",".join([b'"":1'] * 10_000) + b"}",
          b'{"memory_gb":' + b"1" * LONG + b"}", b'{"memory_gb":1e' + b"9" * LONG + b"}",
          b'{"agent":' + b"[" * 60 + b"1," * 30_000 + b"1" + b"]" * 60 + b"}",
          b"[" * 30_000 + b"]" * 30_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
          b'{"agent":"' + b"\xff" * 60_000 + b'"}')


class Texts(unittest.TestCase):
    def setUp(self):
        self.server = Server("--demo", "eight-gpus")
        self.addCleanup(self.server.__exit__)

    def ask(self, method, path, fields=b"", body=b""):
        began = time.monotonic()
        with contextlib.closing(self.server.connect(within(10))) as client:
            client.sendall(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
                           b"Connection: close\r\n" + fields + b"\r\n" + body)
            status = status_of(heard(client))
        self.assertLess(time.monotonic() - began, within(0.5), (method, path[:80], body[:40]))
        return status

    def test_no_bytes_in_a_path_or_a_query_are_a_fault_of_the_server(self):
        for place in PLACES:
            for text in NO_TEXT:
                escaped = place.replace("X", text).encode()
                raw = urllib.parse.unquote_to_bytes(escaped.decode())
                for path in (escaped, raw) if min(raw) > 32 else (escaped,):
                    for method in (b"GET", b"DELETE"):
                        self.assertIn(self.ask(method, path) // 100, (2, 4), (method, path))

    def test_no_body_is_a_fault_of_the_server(self):
        for body in BODIES:
            for path in (b"/v1/leases", b"/v1/leases/1/renew", b"/v1/leases/1/report",
                         b"/v1/leases/1/revoke", b"/v1/alerts/silence"):
                fields = (b"Content-Type: application/json\r\nIdempotency-Key: \xff%d\r\n"
                          b"Content-Length: %d\r\n" % (len(body), len(body)))
                self.assertEqual(self.ask(b"POST", path, fields, body) // 100, 4, (path, body[:40]))
