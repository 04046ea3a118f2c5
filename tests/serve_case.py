"""What the tests of `sluice serve` share: a real process, its events, and waiting.
A test program is started as NAME_test.py SLUICE [TEST...]."""
import contextlib, http.client, json, os, signal, socket, subprocess, sys, tempfile, time, unittest

ADMIN = {"X-API-Key": "an-admin-key-of-32-characters-01"}  # of servers started with AS_ADMIN
AS_ADMIN = {"SLUICE_SERVE_ADMIN_KEY": ADMIN["X-API-Key"]}
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/sluice"


class Server:
    """The program on a free port with a state folder of its own; `state` "" leaves it to XDG; `under`
    is a command that runs it."""

    patience = 10  # seconds for an answer

    def __init__(self, *arguments, environment=None, config=None, state=None, under=()):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-serve-")
        self.config = os.path.join(self.folder.name, "sluice.toml")
        extra = []
        if config is not None:
            self.write_config(config)
            extra = ["--config", self.config]
        where = () if state == "" else ("--state", state or self.folder.name)
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [*under, PROGRAM, "serve", "--port", "0", "--json", *where, *extra, *arguments],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(10)
            raise AssertionError("no server: " + self.logged())
        self.announced = json.loads(line)
        self.port = self.announced["port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def write_config(self, text):
        with open(self.config, "w") as f:
            f.write(text)

    def logged(self):
        with open(self.log.name, errors="replace") as f:
            return f.read()

    def connect(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data):
        """What comes back until the server closes."""
        with self.connect() as s:
            s.sendall(data)
            return heard(s)

    def ask(self, path, method="GET", body=None, headers=None):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            fields = {"Content-Type": "application/json"} if body is not None else {}
            text = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, text, {**fields, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def get(self, path):
        status, _, text = self.ask(path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def stop(self, number=signal.SIGTERM):
        """Seconds it took to end."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(20)
        return time.monotonic() - began


def heard(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            data += piece
    return data


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


def wait_for(what, check, timeout=10, pause=0.02):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if answer := check():
            return answer
        time.sleep(pause)
    raise AssertionError(f"not within {timeout} s: {what}")


class Events:
    """A listener to /v1/events over a bare socket."""

    def __init__(self, server, query="", headers=""):
        self.socket = server.connect()
        self.socket.sendall(f"GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
                            .encode())
        self.lines = self.socket.makefile("r", encoding="utf-8", newline="\n")
        self.status = int(self.lines.readline().split()[1])
        self.header = {}
        while (line := self.lines.readline().strip()):
            name, value = line.split(": ", 1)
            self.header[name] = value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def next(self, *types):
        """The next event, of one of `types` when any are named."""
        event = {}
        while (line := self.lines.readline()):
            line = line.rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif "event" in event and (not types or event["event"] in types):
                event["data"] = json.loads(event["data"])
                return event
            else:
                event = {}
        raise AssertionError("the stream ended")


def check_metrics(test, text):
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                           text=True)
    test.assertEqual((found.returncode, found.stdout + found.stderr), (0, ""))


def main():
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
