"""`sluice serve` as a client sees it: a real process, real sockets.
Usage: serve_test.py SLUICE [TEST...]"""
import base64, contextlib, http.client, json, os, shutil, signal, socket, subprocess, sys, tempfile
import threading, time, unittest

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/sluice"


def fd_limit():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Server:
    """The program on a free port with a state folder of its own."""

    def __init__(self, *arguments, environment=None, config=None, state=None):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-serve-")
        self.config = os.path.join(self.folder.name, "sluice.toml")
        extra = []
        if config is not None:
            self.write_config(config)
            extra = ["--config", self.config]
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--json", "--state", state or self.folder.name, *extra,
             *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(10)
            raise AssertionError("no server: " + self.logged())
        self.told = json.loads(line)
        self.port = self.told["port"]

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
        with open(self.log.name) as f:
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
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


class Routes(unittest.TestCase):
    """One server without a GPU for all."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server().__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        wait_for("it is ready", lambda: cls.server.ask("/health/ready")[0] == 200)

    def test_health_says_live_ready_version_and_devices(self):
        health = self.server.get("/health")
        self.assertIs(health["live"], True)
        self.assertIs(health["ready"], True)
        self.assertRegex(health["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("gpus", health["devices"])
        self.assertGreater(health["uptime_s"], 0)

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
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", silence)[0], 200)
        self.assertEqual(len(self.server.get("/v1/alerts")["silences"]), 1)
        self.assertEqual(
            self.server.ask("/v1/alerts/silence?rule=gpu-temperature&device=*", "DELETE")[0], 200)
        self.assertEqual(self.server.get("/v1/alerts")["silences"], [])

    def test_a_silence_that_makes_no_sense_is_explained(self):
        for body, word in (({}, "rule"), ({"rule": "gpu-temperature", "for_s": -1}, "for_s"),
                           ({"rule": "gpu-temperature", "fors": 1}, "for_s"), ([], "object"),
                           ({"rule": 7}, "rule")):
            status, _, text = self.server.ask("/v1/alerts/silence", "POST", body)
            self.assertEqual(status, 400, (body, text))
            self.assertIn(word, json.loads(text)["error"]["message"], body)
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", {"rule": "none"})[0], 404)
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", "{")[0], 400)

    def test_a_page_of_another_origin_may_not_change_anything(self):
        body = {"rule": "*"}
        foreign = {"Origin": "http://evil.example"}
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", body, foreign)[0], 403)
        form = {"Content-Type": "text/plain"}
        self.assertEqual(self.server.ask("/v1/alerts/silence", "POST", body, form)[0], 415)
        self.assertEqual(self.server.ask("/health", headers={"Host": "evil.example"})[0], 421)

    def test_the_unix_socket_has_the_same_routes(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.server.told["socket"])
            s.sendall(b"GET /health HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n")
            self.assertEqual(status_of(heard(s)), 200)
        self.assertEqual(os.stat(self.server.told["socket"]).st_mode & 0o777, 0o600)

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


def check_metrics(test, text):
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                           text=True)
    test.assertEqual((found.returncode, found.stdout + found.stderr), (0, ""))


def undocumented(text):
    """Names on /metrics that docs/metrics.md does not have."""
    page = os.path.join(os.path.dirname(__file__), "..", "docs", "metrics.md")
    with open(page) as f:
        known = f.read()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    return sorted(n for n in names if f"`{n}" not in known)


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--demo", "gpu-falls-off").__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.began = time.monotonic()

    def test_snapshots_come_at_the_interval_asked_for(self):
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

    def test_a_listener_that_does_not_read_delays_nobody(self):
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


class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--set", "serve.request_timeout_s=1", "--set", "serve.idle_timeout_s=2",
                            "--set", "serve.max_header_bytes=4096", "--set",
                            "serve.max_body_bytes=4096").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def test_what_is_too_large_is_refused(self):
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
        self.assertEqual(status_of(self.server.raw(b"GET / HTTP/3.0\r\nHost: a\r\n\r\n")), 505)

    def test_a_slow_request_is_ended_and_delays_nobody(self):
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

    def test_a_thousand_idle_connections_cost_little_and_delay_nobody(self):
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


def memory_of(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Keys(unittest.TestCase):
    def test_with_a_key_every_route_but_health_needs_it(self):
        with Server(environment={"SLUICE_SERVE_API_KEY": "s3cret"}) as server:
            self.assertEqual(server.ask("/health")[0], 200)
            for path in ("/", "/metrics", "/gpu-health", "/v1/state", "/v1/events", "/nothing"):
                self.assertEqual(server.ask(path)[0], 401, path)
            basic = base64.b64encode(b"me:s3cret").decode()
            for fields in ({"X-API-Key": "s3cret"}, {"Authorization": "Bearer s3cret"},
                           {"Authorization": "Basic " + basic}):
                self.assertEqual(server.ask("/metrics", headers=fields)[0], 200, fields)
            self.assertEqual(server.ask("/metrics", headers={"X-API-Key": "s3creT"})[0], 401)
            self.assertNotIn("s3cret", server.logged())

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

    def test_an_unknown_scenario_is_explained(self):
        done = self.refused("--demo", "gpu-fals-off", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("gpu-falls-off", done.stderr)


class Stopping(unittest.TestCase):
    def test_it_prints_where_it_is_and_one_request_to_try(self):
        with tempfile.TemporaryDirectory() as state:
            process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--state", state],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines = [process.stdout.readline() for _ in range(2)]
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10), 0)
            process.stdout.close()
        self.assertRegex(lines[0], r"http://127\.0\.0\.1:\d+/")
        self.assertRegex(lines[1], r"^Try: curl -s http://127\.0\.0\.1:\d+/")

    def test_under_load_it_ends_within_five_seconds_and_cuts_nobody_off(self):
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

    def test_what_it_keeps_survives_a_restart(self):
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
            server.write_config("[serve]\nidle_timeout_s = 50\napi_key = \"new\"\nthreads = 3\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for("it says so", lambda: "restart" in server.logged())
            self.assertIn("serve.idle_timeout_s: 60 -> 50", server.logged())
            self.assertIn("serve.threads", server.logged())
            wait_for("the key is asked for", lambda: server.ask("/metrics")[0] == 401)
            self.assertNotIn("new\n", server.logged())

    def test_a_broken_file_changes_nothing(self):
        with Server(config="") as server:
            server.write_config("[serve]\nport = \"many\"\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for("it says so", lambda: "not reloaded" in server.logged())
            self.assertIn("sluice.toml:2", server.logged())
            self.assertEqual(server.ask("/health")[0], 200)


def slower_than_50_ms(server):
    """(requests that took the server longer than that, all), by its own account."""
    text = server.ask("/metrics")[2]
    bucket = "sluice_http_request_duration_seconds_bucket"
    def count(bound):
        return int(text.split(f'{bucket}{{le="{bound}"}} ')[1].split()[0])
    return count("+Inf") - count("0.05"), count("+Inf")


class FallingOff(unittest.TestCase):
    """Done means, line 3: seen from outside, with the clock running."""

    def test_a_gpu_that_falls_off_is_lost_within_two_seconds_and_comes_back(self):
        with Server("--demo", "gpu-falls-off") as server:
            states, took = {}, []
            began = time.monotonic()
            while "back" not in states and time.monotonic() - began < 40:
                for path in ("/health", "/metrics", "/gpu-health"):
                    asked = time.monotonic()
                    _, _, text = server.ask(path)
                    took.append(time.monotonic() - asked)
                at = time.monotonic() - began
                gpus = json.loads(text)["gpus"]
                if lost := [g for g in gpus if g["state"] == "lost"]:
                    states.setdefault("lost", at)
                    states.setdefault("cause", lost[0]["cause"])
                if [g["state"] for g in gpus] == ["healthy"] * 2:
                    states.setdefault("well", at)
                    if "lost" in states:
                        states.setdefault("back", at)
                time.sleep(0.02)
            self.assertIn("back", states, server.logged()[-2000:])
            self.assertLess(states["well"], 5, states)
            self.assertLess(states["lost"], 5 + 2 + 1, states)  # the sampler's start is the third
            self.assertTrue(states["cause"])
            self.assertGreater(states["back"], 15 - 1, states)
            # 99.9 % within 50 ms by the server's clock. A machine busy with other tests takes the
            # processor away now and then: one may be late at any count, by our clock a few.
            slow, of = slower_than_50_ms(server)
            self.assertLessEqual(slow, max(1, of // 1000), (slow, of))
            self.assertLessEqual(sum(t > 0.05 for t in took), max(3, len(took) // 100),
                                 sorted(took)[-9:])

    def test_metrics_of_a_demo_machine_pass_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool (apt-get install prometheus)")
        for scenario in ("eight-gpus", "mixed-cards"):
            with Server("--demo", scenario) as server:
                wait_for("GPUs are seen", lambda: server.get("/health")["devices"]["gpus"])
                text = wait_for("they are measured", lambda: (
                    t := server.ask("/metrics")[2]) and "DCGM_FI_DEV_GPU_TEMP{" in t and t)
                self.assertIn("nv_gpu_memory_used_bytes{gpu_uuid=", text)
                self.assertIn("sluice_sampler_core_ratio", text)
                check_metrics(self, text)
                self.assertEqual(undocumented(text), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
