"""Attacks on the API key and the admin key: guessing them, catching them."""
import contextlib, http.client, os, socket, subprocess, tempfile, time, unittest

from hostile.case import Server, wait_for, within
from hostile.users import ADMIN_KEY, OWNER, SILENCE, STRANGER, WITH_KEY, as_user, audited, needs_root, over_tcp
from serve_case import PROGRAM


class Keys(unittest.TestCase):
    def test_a_key_that_can_be_guessed_is_refused_at_the_start(self):
        for name in ("SLUICE_SERVE_API_KEY", "SLUICE_SERVE_ADMIN_KEY"):
            for key in ("abcd", "fifteen-letters"):
                with tempfile.TemporaryDirectory() as state:
                    done = subprocess.run(
                        [PROGRAM, "serve", "--port", "0", "--state", state], text=True,
                        env={**os.environ, name: key}, capture_output=True, timeout=within(10))
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("at least 16", done.stderr)
                self.assertIn("openssl rand", done.stderr)
                self.assertNotIn(key, done.stderr)

    def test_the_admin_key_is_not_the_api_key(self):
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with tempfile.TemporaryDirectory() as state:
            done = subprocess.run([PROGRAM, "serve", "--port", "0", "--state", state], text=True,
                                  env={**os.environ, **WITH_KEY, "SLUICE_SERVE_ADMIN_KEY": key},
                                  capture_output=True, timeout=within(10))
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("admin_key is the same as api_key", done.stderr)

    def test_guesses_from_many_addresses_lock_out_no_other(self):
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=WITH_KEY) as server:
            for i in range(300):  # each hangs up at once: nobody's, but for the address
                with contextlib.closing(socket.socket()) as s:
                    s.bind((f"127.1.{i // 250}.{i % 250 + 1}", 0))
                    s.connect(("127.0.0.1", server.port))
                    s.sendall(b"GET /v1/state HTTP/1.1\r\nHost: a\r\nX-API-Key: " + b"y" * 32 + b"\r\n\r\n")
            time.sleep(0.5)
            self.assertLess(server.logged().count("wrong key"), 25)
            if os.geteuid() == 0:
                ask = lambda: server.ask("/v1/state", headers={"X-API-Key": key})[0]
                self.assertEqual(as_user(OWNER, ask), 200)

    def test_guessing_is_throttled_and_logged(self):
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=WITH_KEY) as server:
            trusted = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            trusted.request("GET", "/v1/state", headers={"X-API-Key": key})
            self.assertEqual(trusted.getresponse().read()[:1], b"{")
            began = time.monotonic()
            statuses = [server.ask("/v1/state", headers={"X-API-Key": f"{i:032}"})[0]
                        for i in range(300)]
            allowed = 12 + (time.monotonic() - began) / 6
            self.assertLessEqual(statuses.count(401), allowed)
            self.assertEqual(statuses.count(401) + statuses.count(429), 300)
            self.assertEqual(server.ask("/health")[0], 200)
            trusted.request("GET", "/metrics", headers={"X-API-Key": key})
            metrics = trusted.getresponse().read().decode()
            self.assertIn("\nsluice_http_wrong_keys_total", metrics)
            self.assertNotIn("\nsluice_http_throttled_keys_total 0\n", metrics)
            trusted.close()
            wait_for("the log reports it", lambda: "sent a wrong key" in server.logged())
            self.assertLess(server.logged().count("wrong key"), 5)
            self.assertNotIn(key, server.logged())

    @needs_root
    def test_a_guessing_client_locks_out_no_other_user(self):
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=WITH_KEY) as server:
            def guess():
                return [server.ask("/v1/state", headers={"X-API-Key": "x" * 32})[0]
                        for _ in range(50)]

            self.assertIn(429, as_user(STRANGER, guess))
            self.assertEqual(server.ask("/v1/state", headers={"X-API-Key": key})[0], 200)

    def test_the_admin_key_is_guessed_no_faster_where_nothing_else_needs_one(self):
        with Server("--demo", "eight-gpus",
                    environment={"SLUICE_SERVE_ADMIN_KEY": ADMIN_KEY}) as server:
            self.assertEqual(server.ask("/v1/state")[0], 200)
            self.assertEqual(over_tcp(server, "POST", "/v1/alerts/silence", SILENCE)[0], 401)
            self.assertEqual(
                over_tcp(server, "POST", "/v1/alerts/silence", SILENCE, ADMIN_KEY)[0], 200)
            statuses = [over_tcp(server, "POST", "/v1/alerts/silence", SILENCE, "y" * 32)[0]
                        for _ in range(50)]
            self.assertEqual(set(statuses), {401, 429})
            entry = audited(server)[1]
            self.assertEqual((entry["who"], entry["key"], entry["result"]),
                             (f"uid:{os.geteuid()}", "admin", "done"))
            self.assertNotIn(ADMIN_KEY, server.logged() + str(audited(server)))

    def test_no_key_is_sent_to_another_process_on_the_port_of_a_stopped_server(self):
        with tempfile.TemporaryDirectory() as state, socket.create_server(("127.0.0.1", 0)) as thief:
            thief.settimeout(within(10))
            environment = {**os.environ, "SLUICE_SERVE_ADMIN_KEY": ADMIN_KEY,
                           "SLUICE_SERVE_API_KEY": WITH_KEY["SLUICE_SERVE_API_KEY"]}
            for name in ("SLUICE_URL", "SLUICE_SOCKET"):
                environment.pop(name, None)
            client = subprocess.Popen(
                [PROGRAM, "lease", "list", "--set", "state_dir=" + state,
                 "--set", f"serve.port={thief.getsockname()[1]}"],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with thief.accept()[0] as caught:
                heard = caught.recv(65536)
            client.wait(within(10))
            self.assertIn(b"GET /v1/leases", heard)
            self.assertNotIn(b"key", heard.lower())
