"""What the tests of leases share: a server with two quiet GPUs, and ways to talk to it."""
import http.client, json, os, socket, sys, tempfile

from serve_case import PROGRAM, Events, Server, main, wait_for

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

SCENARIO = {"about": "Two quiet cards, for tests of leases.",
            "gpus": [{"name": "Card of 16", "memory_gib": 16}, {"name": "Card of 8", "memory_gib": 8}]}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=20):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class LeaseServer(Server):
    """Its samples come ten times a second, so that capacity appears soon."""

    def __init__(self, *arguments, scenario=SCENARIO, state=None, wait=True, config=None):
        self.scenario = tempfile.NamedTemporaryFile("w", suffix=".json", prefix="sluice-lease-")
        json.dump(scenario, self.scenario)
        self.scenario.flush()
        super().__init__("--demo", self.scenario.name, "--set", "watch.interval_s=0.1",
                         "--set", "log_level=warn", *arguments, state=state, config=config)
        self.socket_path = self.announced["socket"]
        self.address = "unix:" + self.socket_path
        if wait:
            self.wait_for_cards(len(scenario["gpus"]))

    def __exit__(self, *_):
        super().__exit__()
        self.scenario.close()

    def wait_for_cards(self, count):
        wait_for("the cards are known", lambda: sum(
            c["usable"] and c["free_gb"] > 1 for c in self.leases()["cards"]) == count)

    def leases(self):
        return self.get("/v1/leases")

    def held(self):
        """Leases in force; not those that were given back and whose memory is awaited."""
        return [l for l in self.leases()["leases"] if l["state"] in ("held", "yielding")]

    def is_free(self):
        now = self.leases()
        return (not self.held() and not now["waiting"] and not now["on_cpu"]
                and sum(c["promised_gb"] for c in now["cards"]) == 0)

    def local(self, timeout=20):
        return UnixConnection(self.socket_path, timeout)

    def on_socket(self, method, path, body=None, connection=None):
        """(status, answer) over the Unix socket; over a new connection unless one is given."""
        own = connection is None
        connection = connection or self.local()
        try:
            return exchange(connection, method, path, body)
        finally:
            if own:
                connection.close()

    def request(self, connection=None, **fields):
        """A lease that no process holds, over a connection of its own."""
        body = {"agent": "test", "memory_gb": 1, "pid": 0, **fields}
        status, answer = self.on_socket("POST", "/v1/leases", body, connection)
        assert status == 200, answer
        return answer

    def release(self, lease):
        return self.on_socket("DELETE", f"/v1/leases/{lease['lease_id']}",
                              {"token": lease["token"]})


def exchange(connection, method, path, body=None):
    text = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
    fields = {} if text is None else {"Content-Type": "application/json"}
    connection.request(method, path, text, fields)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
