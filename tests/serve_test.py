"""`sluice serve` as a client sees it: routes, keys, stopping and reloading.
Usage: serve_test.py SLUICE [TEST...]"""
import base64, http.client, json, os, shutil, signal, socket, subprocess, tempfile, threading, time
import unittest

from serve_case import ADMIN, AS_ADMIN, PROGRAM, Events, Server, check_metrics, heard, main
from serve_case import status_of, wait_for


class Routes(unittest.TestCase):
    """One server without a GPU for all."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(environment=AS_ADMIN).__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        wait_for("it is ready", lambda: cls.server.ask("/health/ready")[0] == 200)

    def test_health_says_live_ready_version_and_devices(self):
        health = self.server.get("/health")
        self.assertIs(health["live"], True)
        self.assertIs(health["ready"], True)
        self.assertRegex(health["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("gpus", health["devices"])
        self.assertGreater(health["uptime_s"], 0)

    def test_the_pools_of_gpu_memory_are_made_as_the_settings_say(self):
        config = """[memory]
strategy = { workspace = "buddy" }
growth_mb = { workspace = 32 }
ceiling_gb = { workspace = 0.5 }
"""
        with Server(config=config) as server:
            workspace, persistent = server.get("/gpu-memory")["pools"]
        self.assertEqual((workspace["name"], workspace["strategy"], workspace["growth_mb"],
                          workspace["ceiling_gb"]), ("workspace", "buddy", 32, 0.5))
        self.assertEqual((persistent["name"], persistent["strategy"], persistent["growth_mb"],
                          persistent["ceiling_gb"]), ("persistent", "best_fit", 16, None))

    def test_pools_that_do_not_exist_are_refused(self):
        ended = subprocess.run([PROGRAM, "serve", "--port", "0", "--set",
                                "memory.strategy=wokspace=buddy"], capture_output=True, text=True)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("names the pool wokspace; there are default", ended.stderr)

    def test_every_json_route_answers_json(self):
        for path in ("/health", "/health/live", "/health/ready", "/gpu-health", "/gpu-memory",
                     "/performance-metrics", "/v1/state", "/v1/alerts", "/v1/devices", "/v1/trends",
                     "/v1/history?device=cpu&metrics=cpu_utilization"):
            status, headers, text = self.server.ask(path)
            self.assertEqual(status, 200, (path, text))
            self.assertEqual(headers["Content-Type"], "application/json", path)
            self.assertIsInstance(json.loads(text), dict, path)

    def test_head_has_the_length_and_no_body(self):
        for path in ("/health", "/metrics", "/", "/v1/alerts"):
            status, headers, text = self.server.ask(path, "HEAD")
            self.assertEqual((status, text), (200, ""), path)
            self.assertGreater(int(headers["Content-Length"]), 10, path)

    def test_options_lists_the_methods(self):
        status, headers, _ = self.server.ask("/v1/alerts/silence", "OPTIONS")
        self.assertEqual((status, headers["Allow"]), (204, "DELETE, POST, OPTIONS"))

    def test_a_wrong_path_names_the_nearest(self):
        status, _, text = self.server.ask("/v1/alert")
        error = json.loads(text)["error"]
        self.assertEqual((status, error["code"]), (404, "not_found"))
        self.assertIn("/v1/alerts", error["message"])
        self.assertTrue(error["fix"])

    def test_a_wrong_method_names_the_right_ones(self):
        status, headers, _ = self.server.ask("/health", "POST", {})
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD, OPTIONS"))
        status, headers, text = self.server.ask("/health", "BREW")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD, OPTIONS"))
        self.assertIn("BREW is not possible", json.loads(text)["error"]["message"])

    def test_the_page_is_cached_by_its_tag_and_may_load_nothing_foreign(self):
        status, headers, text = self.server.ask("/")
        self.assertEqual(status, 200)
        self.assertIn("<html", text)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        again = self.server.ask("/", headers={"If-None-Match": headers["ETag"]})
        self.assertEqual((again[0], again[2]), (304, ""))
        self.assertEqual(self.server.ask("/assets/dygraph.min.js")[0], 200)
        self.assertEqual(self.server.ask("/assets/nothing.js")[0], 404)
        self.assertEqual(self.server.ask("/assets/..%2f..%2fetc/passwd")[0], 404)

    def refusal(self, path, method="GET", body=None):
        status, _, text = self.server.ask(path, method, body, ADMIN)
        self.assertEqual(status, 400, (path, text))
        return json.loads(text)["error"]["message"]

    def test_a_parameter_that_a_route_does_not_know_is_named_and_not_ignored(self):
        for path in ("/health", "/health/live", "/health/ready", "/gpu-health", "/gpu-memory",
                     "/performance-metrics", "/v1/state", "/v1/alerts", "/v1/devices",
                     "/v1/trends"):
            self.assertIn("'nonsense'; this route takes none", self.refusal(path + "?nonsense=1"))
        for path, known in (("/metrics", "labels"), ("/v1/events", "interval, last_event_id"),
                            ("/v1/history", "device, metrics, from, to, points")):
            self.assertIn(f"'nonsense' (known: {known}", self.refusal(path + "?nonsense=1"))
        silence = {"rule": "gpu-temperature"}
        path = "/v1/alerts/silence"
        self.assertIn("takes none", self.refusal(path + "?device=cpu", "POST", silence))
        self.assertIn("known: rule, device", self.refusal(path + "?rule=x&for=3", "DELETE"))
        self.assertIn("not in both", self.refusal(path + "?device=cpu", "DELETE", silence))
        for page in ("/?theme=dark", "/assets/dygraph.min.js?v=3", "/health?", "/health?&"):
            self.assertEqual(self.server.ask(page)[0], 200, page)

    def test_a_number_that_is_none_is_refused(self):
        history = "/v1/history?metrics=cpu_load&"
        for query in ("points=1.5", "points=1e2", "points=ten", "points=", "points=%2B5",
                      "from=now", "from=nan", "to=1e400", "to="):
            self.assertIn(f"'{query.split('=')[0]}'", self.refusal(history + query))
        self.assertIn("'labels'", self.refusal("/metrics?labels="))

    def test_the_host_of_an_absolute_target_is_checked_as_the_field_is(self):
        def status(target, host):
            return status_of(self.server.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n"
                                             "Connection: close\r\n\r\n".encode()))
        self.assertEqual(status("http://localhost:1234/health", "localhost:1234"), 200)
        self.assertEqual(status("http://evil.example/health", "localhost"), 421)
        self.assertEqual(status("http://evil.example:80", "localhost"), 421)
        self.assertEqual(status("http://localhost?a=/health", "localhost"), 200)  # the dashboard
        for target in ("http:///health", "http://user@localhost/health", "http://localhost:0/health",
                       "http://localhost:x/health"):
            self.assertEqual(status(target, "localhost"), 400, target)
        for host in ("localhost:x", "localhost:65536", "[::1]8000", "a b", "localhost:80:80"):
            self.assertEqual(status("/health", host), 400, host)

    def test_history_explains_what_is_wrong_with_a_question(self):
        for query, word in (("", "metrics"), ("?metrics=cpu_utilization&points=0", "points"),
                            ("?metric=x", "metrics"), ("?metrics=x&from=0&to=-5", "before"),
                            ("?metrics=nonsense", "nonsense"), ("?metrics=%zz", "%zz")):
            status, _, text = self.server.ask("/v1/history" + query)
            self.assertEqual(status, 400, (query, text))
            self.assertIn(word, json.loads(text)["error"]["message"], query)
        self.assertEqual(
            self.server.ask("/v1/history?device=GPU-none&metrics=power")[0], 404)

    def test_history_has_what_was_measured(self):
        def points():
            got = self.server.get("/v1/history?device=cpu&metrics=cpu_utilization&from=-60")
            return got["metrics"]["cpu_utilization"]["t"]
        times = wait_for("a point of history", points)
        self.assertLess(abs(times[-1] / 1000 - time.time()), 30)

    def test_trends_are_of_every_device(self):
        trends = self.server.get("/v1/trends")
        self.assertLessEqual({"cpu", "server"}, set(trends))
        self.assertTrue(all(isinstance(of_one, list) for of_one in trends.values()), trends)

    def test_an_alert_rule_can_be_silenced_and_heard_again(self):
        silence = {"rule": "gpu-temperature", "device": "*", "for_s": 60}
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", silence, ADMIN)[0], 200)
        self.assertEqual(len(self.server.get("/v1/alerts")["silences"]), 1)
        self.assertEqual(
            self.server.ask("/v1/alerts/silence?rule=gpu-temperature&device=*", "DELETE",
                            headers=ADMIN)[0], 200)
        self.assertEqual(self.server.get("/v1/alerts")["silences"], [])

    def test_a_silence_that_makes_no_sense_is_explained(self):
        for body, word in (({}, "rule"), ({"rule": "gpu-temperature", "for_s": -1}, "for_s"),
                           ({"rule": "gpu-temperature", "fors": 1}, "for_s"), ([], "object"),
                           ({"rule": 7}, "rule")):
            status, _, text = self.server.ask("/v1/alerts/silence", "POST", body, ADMIN)
            self.assertEqual(status, 400, (body, text))
            self.assertIn(word, json.loads(text)["error"]["message"], body)
        for body, status in (({"rule": "none"}, 404), ("{", 400)):
            self.assertEqual(
                self.server.ask("/v1/alerts/silence", "POST", body, ADMIN)[0], status)

    def test_a_body_that_says_one_thing_twice_is_refused(self):
        for path, method, body in (
                ("/v1/alerts/silence", "POST", '{"rule": "*", "for_s": 1, "for_s": 9e6}'),
                ("/v1/alerts/silence", "DELETE", '{"rule": "*", "rule": "gpu-temperature"}'),
                ("/v1/leases", "POST", '{"agent": "a", "agent": "b", "memory_gb": 1}'),
                ("/v1/leases/1/renew", "POST", '{"token": "a", "token": "b"}')):
            self.assertIn("given twice", self.refusal(path, method, body), path)
        self.assertEqual(self.server.get("/v1/alerts")["silences"], [])

    def test_a_page_of_another_origin_may_not_change_anything(self):
        body = {"rule": "*"}
        foreign = {"Origin": "http://evil.example"}
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", body, foreign)[0], 403)
        form = {"Content-Type": "text/plain"}
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", body, form)[0], 415)
        self.assertEqual(self.server.ask("/health", headers={"Host": "evil.example"})[0], 421)

    def test_the_unix_socket_has_the_same_routes(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.server.announced["socket"])
            s.sendall(b"GET /health HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n")
            self.assertEqual(status_of(heard(s)), 200)
        self.assertEqual(os.stat(self.server.announced["socket"]).st_mode & 0o777, 0o600)

    def test_the_server_counts_its_own_requests(self):
        def rate():
            self.server.get("/health")
            got = self.server.get("/performance-metrics")["server"]
            return got if got.get("requests_per_s", 0) > 0 and "p99_ms" in got else None
        server = wait_for("a rate", rate)
        self.assertLess(server["age_s"]["requests_per_s"], 3)
        self.assertGreater(server["requests_total"], 0)

    def test_metrics_pass_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool (apt-get install prometheus)")
        self.server.get("/health")
        status, headers, text = self.server.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        self.assertIn("sluice_http_requests_total", text)
        check_metrics(self, text)


KEY = "s3cret-of-16-and-more"


class Keys(unittest.TestCase):
    def test_with_a_key_every_route_but_health_needs_it(self):
        with Server(environment={"SLUICE_SERVE_API_KEY": KEY}) as server:
            self.assertEqual(server.ask("/health")[0], 200)
            for path in ("/", "/metrics", "/gpu-health", "/v1/state", "/v1/events", "/nothing"):
                self.assertEqual(server.ask(path)[0], 401, path)
            basic = base64.b64encode(b"me:" + KEY.encode()).decode()
            for fields in ({"X-API-Key": KEY}, {"Authorization": "Bearer " + KEY},
                           {"Authorization": "Basic " + basic}):
                self.assertEqual(server.ask("/metrics", headers=fields)[0], 200, fields)
            self.assertEqual(server.ask("/metrics", headers={"X-API-Key": KEY.upper()})[0], 401)
            self.assertNotIn(KEY, server.logged())

    def refused(self, *arguments):
        with tempfile.TemporaryDirectory() as state:
            return subprocess.run([PROGRAM, "serve", "--state", state, *arguments],
                                  capture_output=True, text=True, timeout=20)

    def test_an_open_address_without_a_key_is_refused(self):
        done = self.refused("--host", "0.0.0.0", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("SLUICE_SERVE_API_KEY", done.stderr)

    def test_a_taken_port_is_explained(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.refused("--port", str(taken.getsockname()[1]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is taken", done.stderr)
        self.assertIn("--port", done.stderr)

    def test_a_state_folder_that_cannot_be_written_is_explained(self):
        nobody = {"user": 65534} if os.geteuid() == 0 else {}  # root may write anywhere
        with tempfile.TemporaryDirectory() as state:
            os.chmod(state, 0o555)
            try:
                done = subprocess.run([PROGRAM, "serve", "--port", "0", "--state", state],
                                      capture_output=True, text=True, timeout=20, **nobody)
            except PermissionError:
                self.skipTest("others may not run the program from where it is")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot be written: Permission denied; choose another with --state DIR",
                      done.stderr)

    def test_an_unknown_scenario_is_explained(self):
        done = self.refused("--demo", "gpu-fals-off", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("gpu-falls-off", done.stderr)


def first_lines(count, *arguments):
    """What it says to a person before it is interrupted."""
    with subprocess.Popen([PROGRAM, "serve", "--port", "0", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        lines = [process.stdout.readline() for _ in range(count)]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, process.returncode
        return lines


class Stopping(unittest.TestCase):
    def test_it_prints_where_it_is_and_one_request_to_try(self):
        with tempfile.TemporaryDirectory() as state:
            lines = first_lines(3, "--state", state)
        self.assertRegex(lines[0], r"http://127\.0\.0\.1:\d+/")
        self.assertRegex(lines[1], r"^Try: curl -s http://127\.0\.0\.1:\d+/")
        self.assertEqual(lines[2], f"State is kept in {state}; Ctrl-C stops\n")

    def test_it_says_so_when_history_is_not_kept(self):
        for arguments, why in (((), "is no regular file"), (("--set", "watch.history=false"),
                                                    "watch.history is false")):
            with tempfile.TemporaryDirectory() as state:
                if not arguments:  # a file cannot be where a folder is
                    os.mkdir(os.path.join(state, "history.db"))
                lines = first_lines(3, "--state", state, *arguments)
            self.assertIn("History is kept in memory only", lines[2])
            self.assertIn(why, lines[2])
            self.assertNotIn("State is kept", lines[2])

    def test_a_folder_whose_name_is_no_text_is_no_obstacle(self):
        with tempfile.TemporaryDirectory() as above:
            home = os.path.join(above, "odd-\udcff")  # the byte 0xff, as Python writes it
            os.makedirs(os.path.join(home, "sluice", "history.db"))  # in the way: an alert says so
            rule = '[[alerts]]\nname = "history-down"\nfor_s = 0\n'
            with Server(config=rule, state="", environment={"XDG_STATE_HOME": home}) as server:
                alert = wait_for("an alert", lambda: server.get("/v1/alerts")["active"])[0]
                self.assertEqual(alert["rule"], "history-down")
                wait_for("it goes on looking", lambda: server.get("/v1/state")["sequence"] > 5)

    def test_under_load_it_stops_within_five_seconds_and_cuts_off_no_request(self):
        with Server() as server:
            wrong, stop = [], threading.Event()
            listener = Events(server)
            def client():
                while not stop.is_set():
                    try:
                        status, _, text = server.ask("/health")
                        if status != 200 or not text.endswith("}\n"):
                            wrong.append((status, text))
                    except (ConnectionError, http.client.RemoteDisconnected):
                        return  # it had not been let in any more
                    except Exception as error:  # noqa: BLE001
                        wrong.append(error)
                        return
            clients = [threading.Thread(target=client) for _ in range(8)]
            for c in clients:
                c.start()
            time.sleep(0.5)
            took = server.stop()
            stop.set()
            for c in clients:
                c.join()
            with listener:
                self.assertEqual(listener.lines.read().rpartition("\n")[2], "")
            self.assertEqual(server.process.returncode, 0, server.logged())
            self.assertLess(took, 5)
            self.assertEqual(wrong, [])

    def test_with_a_driver_that_hangs_and_a_request_half_sent_it_ends_within_five_seconds(self):
        with Server("--demo", "hang") as server, server.connect() as stuck:
            wait_for("the driver hangs", lambda: server.get("/gpu-health")["status"] == "lost", 30)
            stuck.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
            wait_for("the connection counts",
                     lambda: server.get("/performance-metrics")["server"]["connections"] >= 2)
            self.assertLess(server.stop(), 5)
            self.assertEqual(server.process.returncode, 0, server.logged())
            self.assertIn("was cut off", server.logged())

    def test_in_the_middle_of_calculations_it_ends_within_five_seconds(self):
        body = json.dumps({"payoff": "asian_price", "steps": 1000, "paths": 900_000})
        with Server() as server, server.connect() as one, server.connect() as other:
            for client in (one, other):
                client.sendall(b"POST /v1/market/montecarlo HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
            wait_for("both are calculated", lambda: "sluice_market_requests_waiting 2\n" in
                     server.ask("/metrics")[2])
            self.assertLess(server.stop(), 5)
            self.assertEqual(server.process.returncode, 0, server.logged())
            self.assertEqual(status_of(heard(one)), 503)

    def test_a_second_signal_ends_it_at_once(self):
        with Server("--set", "serve.drain_timeout_s=60", "--set",
                    "serve.request_timeout_s=60") as server, server.connect() as stuck:
            stuck.sendall(b"GET /health HTTP/1.1\r\n")
            wait_for("the connection counts",
                     lambda: server.get("/performance-metrics")["server"]["connections"] >= 2)
            server.process.send_signal(signal.SIGTERM)
            wait_for("it has begun to stop", lambda: "stopping" in server.logged())
            self.assertLess(server.stop(), 2)
            self.assertEqual(server.process.returncode, -signal.SIGTERM)

    def test_stored_state_survives_a_restart(self):
        with tempfile.TemporaryDirectory() as state:
            def history(server):
                got = server.get("/v1/history?device=cpu&metrics=cpu_load&from=-600&points=600")
                return got["metrics"]["cpu_load"]["t"]
            with Server(state=state) as server:
                first = wait_for("history", lambda: history(server))[0]
                server.stop()
            with Server(state=state) as server:
                again = wait_for("history", lambda: history(server))[0]
        self.assertLess(abs(again - first), 2000)


class Reloading(unittest.TestCase):
    def test_hang_up_takes_over_what_it_can_and_says_what_needs_a_restart(self):
        with Server(config="[serve]\nidle_timeout_s = 60\n") as server:
            server.write_config("[serve]\nidle_timeout_s = 50\napi_key = \"a-newer-key-of-16\"\nthreads = 3\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for("it says so", lambda: "restart" in server.logged())
            self.assertIn("serve.idle_timeout_s: 60 -> 50", server.logged())
            self.assertIn("serve.threads", server.logged())
            wait_for("the key is asked for", lambda: server.ask("/metrics")[0] == 401)
            self.assertNotIn("newer-key", server.logged())

    def test_a_broken_file_changes_nothing(self):
        with Server(config="") as server:
            server.write_config("[serve]\nport = \"many\"\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for("it says so", lambda: "not reloaded" in server.logged())
            self.assertIn("sluice.toml:2", server.logged())
            self.assertEqual(server.ask("/health")[0], 200)


if __name__ == "__main__":
    main()
