"""Attacks on the clients of a lease, by a false server: what it answers is acted upon."""
import contextlib, http.server, json, os, select, socket, subprocess, tempfile, time, unittest

from hostile.case import within
from hostile.users import STRANGER, needs_root
from serve_case import PROGRAM

GRANTED = {"status": "allocated", "lease_id": "1", "token": "1.0.1", "ttl_s": 1, "gpu_device": 0,
           "env": {}}
FOREIGN = ("LD_PRELOAD", "PATH", "A;touch ran;B", "\x1b[2J", "CUDA_VISIBLE_DEVICES ",
           "SLUICE_SERVE_API_KEY", "")


class FalseServer:
    """A process, of user `uid`, that answers on a port of loopback: `lease` to a request, `renewal` to
    a renewal, `event` (bytes) as the stream of events."""

    def __init__(self, lease=None, renewal=None, event=b"", uid=None):
        self.answers = {"lease": GRANTED if lease is None else lease,
                        "renewal": GRANTED if renewal is None else renewal}
        self.event = event
        port, ours = os.pipe()
        self.requests, theirs = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.serve(ours, theirs, uid)
            finally:
                os._exit(1)
        os.close(ours)
        os.close(theirs)
        with os.fdopen(port) as announced:
            self.port = int(announced.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(self, port, requests, uid):
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        false_server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                os.write(requests, b"x")
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.startswith("/v1/events"):
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(false_server.event)
                    self.wfile.flush()
                    time.sleep(30)
                kind = "renewal" if self.path.endswith("/renew") else "lease"
                text = json.dumps(false_server.answers[kind]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_DELETE = do_POST

            def address_string(self):  # without a look-up
                return "client"

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def server_bind(self):  # without a look-up of the host's name
                self.socket.bind(self.server_address)
                self.server_address = self.socket.getsockname()

        listener = Listener(("127.0.0.1", 0), Handler)
        os.write(port, f"{listener.server_address[1]}\n".encode())
        os.close(port)
        listener.serve_forever()

    def was_asked(self):
        return bool(select.select([self.requests], [], [], 0)[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.child, 9)
        os.waitpid(self.child, 0)
        os.close(self.requests)


def accept_and_vanish(port, times):
    """As another user: accepts a connection, stops to listen at once, and grants what was asked."""
    try:
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        text = json.dumps({**GRANTED, "env": {"CUDA_VISIBLE_DEVICES": "666"}}).encode()
        for _ in range(times):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            connection, _ = listener.accept()
            listener.close()
            connection.settimeout(10)
            with contextlib.suppress(OSError):
                if connection.recv(65536):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            connection.close()
    finally:
        os._exit(0)


class Client(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def lease(self, *arguments, **environment):
        """`sluice lease` in an empty folder, which is the state folder too."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        return subprocess.run([os.path.abspath(PROGRAM), "lease", *arguments], capture_output=True,
                              text=True, timeout=within(20), cwd=self.folder,
                              env={**clean, "SLUICE_STATE_DIR": self.folder, **environment})

    def request(self, server, *more):
        return self.lease("request", "x", "--memory-gb", "1", "--url", server.url, *more)

    def files(self):
        return os.listdir(self.folder)


class Variables(Client):
    def test_a_server_sets_no_variable_but_those_of_a_lease(self):
        for name in FOREIGN:
            with self.subTest(name), FalseServer({**GRANTED, "env": {name: "/tmp/evil.so"}}) as server:
                for how in (("--", "touch", "ran"), ("--export",), ()):
                    done = self.request(server, *how)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), how)
                    self.assertIn("a variable that a lease does not set: ", done.stderr)
                    self.assertNotIn("\x1b", done.stderr)
                    self.assertEqual(self.files(), [])

    def test_a_value_that_no_variable_can_have_starts_no_command(self):
        for value in ("a\0b", 5, None, ["x"]):
            answer = {**GRANTED, "env": {"CUDA_VISIBLE_DEVICES": value}}
            with self.subTest(value), FalseServer(answer) as server:
                for how in (("--", "touch", "ran"), ("--export",)):
                    done = self.request(server, *how)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), how)
                    self.assertIn("CUDA_VISIBLE_DEVICES", done.stderr)
                    self.assertEqual(self.files(), [])


class Answers(Client):
    def test_a_renewal_of_odd_types_does_not_end_the_command(self):
        for renewal in ({"token": 5}, {"yield_in_s": "x"}, {"token": None, "yield_in_s": []}, [1]):
            with self.subTest(renewal), FalseServer(renewal=renewal) as server:
                done = self.request(server, "--", "sh", "-c", "sleep 1.2; echo done")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done\n", ""))

    def test_the_reason_of_an_event_does_not_reach_the_terminal_raw(self):
        event = b'event: lease_ended\ndata: {"reason":"\\u001b[2J\\u009bred"}\n\n'
        with FalseServer(event=event) as server:
            done = self.request(server, "--", "sleep", "5")
            self.assertIn("is lost: \\x1b[2J", done.stderr)
            self.assertNotIn("\x1b", done.stderr)
            self.assertNotIn("\x9b", done.stderr)

    def test_odd_types_are_no_answer_of_a_server_and_start_nothing(self):
        for field, value in (("status", 5), ("ttl_s", "x"), ("lease_id", 7), ("token", [])):
            with self.subTest(field), FalseServer({**GRANTED, field: value}) as server:
                done = self.request(server, "--", "touch", "ran")
                self.assertEqual(done.returncode, 1)
                self.assertIn("is not what a Sluice server sends", done.stderr)
                self.assertNotIn("json.exception", done.stderr)
                self.assertEqual(self.files(), [])


class Guesses(Client):
    """Without a named server the client tries the port of the settings."""

    def guess(self, server, *more, **environment):
        return self.lease("request", "x", "--memory-gb", "1", *more,
                          SLUICE_SERVE_PORT=str(server.port), **environment)

    @needs_root
    def test_the_listener_of_another_user_is_sent_nothing(self):
        with FalseServer(uid=STRANGER) as server:
            for how in (("--", "touch", "ran"), ("--export",), ("--json",)):
                done = self.guess(server, *how)
                self.assertEqual((done.returncode, done.stdout), (1, ""), how)
                self.assertIn(f"held by another user (uid {STRANGER})", done.stderr)
                self.assertIn(f"--url {server.url} or SLUICE_URL", done.stderr)
                self.assertEqual(self.files(), [])
            self.assertFalse(server.was_asked())
            named = self.guess(server, "--", "touch", "ran", SLUICE_URL=server.url)
            self.assertEqual((named.returncode, self.files()), (0, ["ran"]), named.stderr)

    @needs_root
    def test_a_listener_at_any_address_or_over_ipv6_is_seen_too(self):
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"),
                                (socket.AF_INET6, "::ffff:127.0.0.1")):
            with self.subTest(address), contextlib.ExitStack() as stack:
                try:
                    listener = stack.enter_context(socket.socket(family))
                    if family == socket.AF_INET6:
                        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                    os.fchown(listener.fileno(), STRANGER, STRANGER)
                    listener.bind((address, 0))
                except OSError:
                    self.skipTest("no IPv6 here")
                listener.listen()
                done = self.lease("list", SLUICE_SERVE_PORT=str(listener.getsockname()[1]))
                self.assertIn(f"held by another user (uid {STRANGER})", done.stderr)

    @needs_root
    def test_a_listener_that_is_gone_once_it_has_accepted_is_found_by_its_connection(self):
        """Beside a listener of root over IPv6 alone, which does not stand in its way."""
        with contextlib.ExitStack() as stack:
            try:
                root = stack.enter_context(socket.socket(socket.AF_INET6))
                root.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                root.bind(("::", 0))
            except OSError:
                self.skipTest("no IPv6 here")
            root.listen()
            port = root.getsockname()[1]
            stranger = os.fork()
            if stranger == 0:
                accept_and_vanish(port, 40)
            stack.callback(os.waitpid, stranger, 0)
            stack.callback(os.kill, stranger, 9)
            for _ in range(20):
                done = self.lease("request", "x", "--memory-gb", "1", "--export",
                                  SLUICE_SERVE_PORT=str(port))
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)

    @needs_root
    def test_users_that_are_not_mapped_are_not_one_user(self):
        """In a user namespace without a map every user has the same number."""
        with FalseServer(uid=STRANGER) as server:
            done = subprocess.run(
                ["setpriv", "--reuid", str(STRANGER + 1), "--regid", str(STRANGER + 1), "--clear-groups",
                 "unshare", "-U", os.path.abspath(PROGRAM), "lease", "list"],
                capture_output=True, text=True, timeout=within(20), cwd="/",
                env={"PATH": os.environ["PATH"], "SLUICE_STATE_DIR": "/nonexistent",
                     "SLUICE_SERVE_PORT": str(server.port)})
            if "unshare" in done.stderr:
                self.skipTest("no user namespaces here")
            self.assertIn("held by another user", done.stderr)
            self.assertFalse(server.was_asked())

    def test_the_listener_of_the_own_user_is_asked(self):
        with FalseServer() as server:
            done = self.guess(server, "--", "touch", "ran")
            self.assertEqual((done.returncode, self.files()), (0, ["ran"]), done.stderr)
