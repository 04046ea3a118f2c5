"""Attacks on the traces of others: pushing lines out of the audit log, hiding in it, names that
speak to a terminal."""
import http.client, json, os, subprocess, tempfile, unittest

from hostile.case import within
from hostile.users import OWNER, SILENCE, STRANGER, as_user, audited, needs_root, over_tcp
from lease_case import LeaseServer, exchange
from serve_case import PROGRAM


class Traces(unittest.TestCase):
    def test_the_audit_log_has_a_size_and_outlives_a_restart(self):
        with tempfile.TemporaryDirectory() as state:
            for run in range(2):
                with LeaseServer("--set", "serve.audit_log_mb=1", state=state) as server:
                    connection = server.local()
                    for i in range(2500):
                        body = {**SILENCE, "for_s": 1 + run * 10000 + i}
                        status, answer = exchange(connection, "POST", "/v1/alerts/silence", body)
                        self.assertEqual(status, 200, answer)
                    connection.close()
            sizes = [os.path.getsize(os.path.join(state, n)) for n in ("audit.log", "audit.log.1")]
            self.assertLessEqual(sum(sizes), 1 << 20)
            self.assertGreater(sizes[1], 1 << 18)
            self.assertEqual(os.stat(os.path.join(state, "audit.log")).st_mode & 0o777, 0o600)

    @needs_root
    def test_ordinary_use_and_long_names_push_no_line_out(self):
        with LeaseServer("--set", "serve.audit_log_mb=1") as server:
            self.assertEqual(server.on_socket("POST", "/v1/alerts/silence", SILENCE)[0], 200)

            def attack():
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)

                def post(path, body):
                    connection.request("POST", path, json.dumps(body),
                                       {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    return answer.status, json.loads(answer.read())

                for i in range(300):
                    lease = post("/v1/leases", {"agent": "x", "memory_gb": 0.1})[1]["lease_id"]
                    assert post(f"/v1/leases/{lease}/revoke", {"reason": "x" * 9000})[0] == 200
                    assert post("/v1/leases/" + "%01" * 5000 + "/revoke", {"reason": "x"})[0] == 404
                return True

            self.assertTrue(as_user(OWNER, attack))
            self.assertTrue(as_user(STRANGER, lambda: over_tcp(
                server, "POST", "/v1/alerts/silence", {**SILENCE, "x": "\x01" * 9000})[0] == 403))
            lines = audited(server)
            self.assertEqual((lines[0]["who"], lines[0]["result"]), ("uid:0", "done"))
            self.assertLess(max(len(json.dumps(line)) for line in lines), 4500)
            self.assertFalse(os.path.exists(os.path.join(server.announced["state_dir"], "audit.log.1")))

    @needs_root
    def test_preempting_ones_own_leases_pushes_no_line_out(self):
        with LeaseServer("--set", "broker.escalation=revoke",
                         "--set", "broker.yield_within_s=0.1") as server:
            self.assertEqual(server.on_socket("POST", "/v1/alerts/silence", SILENCE)[0], 200)

            def preempt():
                low = over_tcp(server, "POST", "/v1/leases",
                               {"agent": "low", "memory_gb": 14, "priority": "low", "ttl_s": 60})[1]
                over_tcp(server, "POST", "/v1/leases",
                         {"agent": "high", "memory_gb": 14, "priority": "critical", "wait_s": 3})
                return over_tcp(server, "GET", f"/v1/leases/{low['lease_id']}")[1]

            self.assertIn("did not yield", json.dumps(as_user(OWNER, preempt)))
            self.assertEqual([e["who"] for e in audited(server)], ["uid:0"])

    @needs_root
    def test_one_users_noise_hides_no_other(self):
        with LeaseServer() as server:
            def noise():
                return [over_tcp(server, "POST", "/v1/alerts/silence", SILENCE)[0] for _ in range(300)]

            as_user(OWNER, noise)
            as_user(STRANGER, lambda: over_tcp(server, "POST", "/v1/alerts/silence", SILENCE)[0])
            self.assertIn(f"uid:{STRANGER}", [e["who"] for e in audited(server)])

    def test_stored_files_are_readable_by_this_user_only(self):
        with tempfile.TemporaryDirectory() as parent, \
                LeaseServer(state=parent + "/state") as server:
            self.assertEqual(os.stat(parent + "/state").st_mode & 0o777, 0o700)
            server.on_socket("POST", "/v1/alerts/silence", SILENCE)
            files = sorted(os.listdir(parent + "/state"))
            self.assertIn("history.db", files)
            for name in files:
                mode = os.stat(os.path.join(parent, "state", name)).st_mode & 0o777
                self.assertEqual(mode & 0o077, 0, f"{name} {mode:o}")

    def test_refusals_do_not_fill_the_audit_log(self):
        with LeaseServer() as server:
            for _ in range(1000):
                self.assertEqual(over_tcp(server, "POST", "/v1/alerts/silence", SILENCE)[0], 403)
            self.assertLess(len(audited(server)), 40)

    def test_names_speak_to_no_terminal_and_no_browser(self):
        with LeaseServer() as server:
            for name in ("a\x1b[2Jb", "a\nb", "a\u009b31mb", "a\u202eb", "a\x00b", "a\u200bb",
                         "\ufeffname", "name ", "\u00a0name"):
                status, answer = over_tcp(server, "POST", "/v1/leases",
                                          {"agent": name, "memory_gb": 1})
                self.assertEqual(status, 400, answer)
                self.assertNotIn(name, json.dumps(answer, ensure_ascii=False))
            markup = "<img src=x onerror=alert(1)>&amp;\"'"
            lease = server.request(agent=markup)
            status, headers, text = server.ask("/v1/leases")
            self.assertTrue(headers["Content-Type"].startswith("application/json"))
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(json.loads(text)["leases"][0]["agent"], markup)
            table = subprocess.run([PROGRAM, "lease", "list", "--socket", server.socket_path],
                                   capture_output=True, text=True, timeout=within(10))
            self.assertIn(markup[:8], table.stdout, table)
            # What a client sends is in an answer as JSON, which says so.
            for path in ("/%1b[2J<script>", "/v1/leases/%1b[2J<script>", "/assets/<script>"):
                _, headers, text = server.ask(path)
                self.assertTrue(headers["Content-Type"].startswith("application/json"), path)
                self.assertNotIn("\x1b", text)
            server.release(lease)
            self.assertNotIn("\x1b", server.logged())
