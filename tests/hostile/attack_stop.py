"""Attacks on the end of a server: whatever its clients do, SIGTERM ends it in order and keeps the
leases."""
import contextlib, json, socket, tempfile, threading, time, unittest

from hostile.case import within
from lease_case import LeaseServer

COUNTS = {"wait": 80, "stream": 300, "unread": 150, "calculate": 6, "upload": 150, "bind": 100}
OPTION = {"payoff": "asian_price", "steps": 1000, "paths": 900_000, "spot": 100, "strike": 100,
          "rate": 0.01, "volatility": 0.2, "maturity": 1}


def request(method, path, body=None):
    text = b"" if body is None else json.dumps(body).encode()
    fields = "" if body is None else ("Content-Type: application/json\r\n"
                                      f"Content-Length: {len(text)}\r\n")
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode() + text


def bytes_of(kind, i):
    if kind == "wait":
        return request("POST", "/v1/leases", {"agent": f"w{i}", "memory_gb": 16, "wait_s": 60,
                                              "on_unavailable": "wait"})
    if kind == "bind":
        return request("POST", "/v1/leases", {"agent": f"b{i}", "memory_gb": 0.001,
                                              "bind": "connection"})
    return {"stream": request("GET", "/v1/events?interval=0.1&last_event_id=0-0"),
            "unread": request("GET", "/v1/state") * 30,
            "calculate": request("POST", "/v1/market/option", OPTION),
            "upload": request("POST", "/v1/market/option", "x" * 200_000)[:20_000]}[kind]


class Stop(unittest.TestCase):
    def connect(self, server, number):
        if number % 2:
            return server.connect(within(10))
        local = socket.socket(socket.AF_UNIX)
        local.connect(server.socket_path)
        return local

    def flood_with_pipelines(self, server, stack):
        def pump(client):
            with contextlib.suppress(OSError):
                while True:
                    client.sendall(request("GET", "/health/live") * 50)

        for i in range(12):
            client = stack.enter_context(contextlib.closing(self.connect(server, i)))
            threading.Thread(target=pump, args=(client,), daemon=True).start()

    def test_sigterm_amid_clients_of_every_kind_keeps_all_leases(self):
        with tempfile.TemporaryDirectory(prefix="sluice-stop-") as state:
            with LeaseServer(state=state) as server, contextlib.ExitStack() as stack:
                local = stack.enter_context(contextlib.closing(server.local()))
                held = [server.request(local, memory_gb=0.01, ttl_s=600)["lease_id"]
                        for _ in range(20)]
                for kind, count in COUNTS.items():
                    for i in range(count):
                        client = stack.enter_context(contextlib.closing(self.connect(server, i)))
                        client.sendall(bytes_of(kind, i))
                self.flood_with_pipelines(server, stack)
                time.sleep(0.5)
                self.assertLess(server.stop(), within(5))
                self.assertEqual(server.process.returncode, 0)
            with LeaseServer(state=state) as server:
                self.assertLessEqual(set(held), {l["lease_id"] for l in server.held()})
                self.assertNotIn("damage", server.logged())
