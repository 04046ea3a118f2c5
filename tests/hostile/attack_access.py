"""Attacks on what belongs to others: their leases, their processes, the alerts of all, the keys.
Those of a second user need root, to become one; encodings.idna is read here because they may not."""
import array, contextlib, encodings.idna, errno, http.client, json, os, shutil, signal, socket, subprocess, tempfile, threading, time, unittest

from hostile.case import Server, heard, memory_of, stopped, wait_for, within
from lease_case import LeaseServer, UnixConnection, exchange
from serve_case import PROGRAM

OWNER, STRANGER = 41001, 41002
ADMIN_KEY = "an-admin-key-of-32-characters-01"
SILENCE = {"rule": "*", "device": "*", "for_s": 365 * 86400}
needs_root = unittest.skipUnless(os.geteuid() == 0, "becoming another user takes root")


def as_user(uid, act):
    """What `act()` returns, in a process of that user; it must fit JSON."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(theirs, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text, "the other user's process failed"
    return json.loads(text)


def over_tcp(server, method, path, body=None, key=None):
    """(status, answer)"""
    headers = {"X-API-Key": key} if key else {}
    status, _, text = server.ask(path, method, body, headers)
    return status, json.loads(text)


def audited(server):
    with open(os.path.join(server.announced["state_dir"], "audit.log")) as f:
        return [json.loads(line) for line in f]


def open_socket(server):
    """Lets every user connect, as an administrator may choose to."""
    os.chmod(server.announced["state_dir"], 0o755)
    os.chmod(server.socket_path, 0o666)


def is_alive(process):
    return process.poll() is None


class Holder:
    """A process of a user that asks for a lease over the Unix socket and stays."""

    def __init__(self, server, uid, body):
        def become():
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)

        code = ("import http.client,json,socket,sys,time\n"
                "c=http.client.HTTPConnection('localhost')\n"
                "c.sock=socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])\n"
                "c.request('POST','/v1/leases',sys.argv[2],{'Content-Type':'application/json'})\n"
                "print(c.getresponse().read().decode().strip(),flush=True)\n"
                "time.sleep(60)\n")
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", code, server.socket_path, json.dumps(body)],
            preexec_fn=become, stdout=subprocess.PIPE, text=True, cwd="/")
        self.lease = json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class SharedFolders(unittest.TestCase):
    """Where no MPS daemon runs, any user may make /tmp/nvidia-mps."""

    @needs_root
    def test_a_fifo_or_an_endless_file_in_a_folder_of_another_user_stops_nothing(self):
        for kind in ("fifo", "zero"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                pid = os.path.join(folder, "nvidia-cuda-mps-control.pid")
                os.mkfifo(pid) if kind == "fifo" else os.symlink("/dev/zero", pid)
                for owned in (folder, pid):
                    os.chown(owned, STRANGER, STRANGER, follow_symlinks=False)
                for owner in (STRANGER, 0):  # also where the folder is root's
                    os.chown(folder, owner, owner)
                    with Server("--demo", "eight-gpus", "--set", f"broker.mps_dir={folder}",
                                "--set", "watch.interval_s=0.1") as server:
                        time.sleep(7)  # readiness takes 5 s to notice a monitor that stands still
                        self.assertEqual(server.ask("/health/ready")[0], 200)
                        self.assertLess(memory_of(server.process), within(400e6))
                        self.assertLess(server.stop(), 5)


class Loopback(unittest.TestCase):
    def test_localhost_is_this_server_over_ipv6_too(self):
        with Server("--demo", "eight-gpus") as server:
            try:
                client = socket.create_connection(("::1", server.port), 5)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    self.skipTest("no IPv6 here")
                raise
            with client:
                client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
                               b"Connection: close\r\n\r\n")
                self.assertIn(b" 200 ", heard(client).split(b"\r\n")[0])


class Others(unittest.TestCase):
    @needs_root
    def test_a_lease_is_revoked_by_its_own_user_only(self):
        with LeaseServer() as server:
            body = {"agent": "own", "memory_gb": 1}
            _, lease = as_user(OWNER, lambda: over_tcp(server, "POST", "/v1/leases", body))
            path = f"/v1/leases/{lease['lease_id']}/revoke"

            def revoke():
                return over_tcp(server, "POST", path, {"reason": "mine now"})

            for thief in (lambda: as_user(STRANGER, revoke), revoke):
                status, answer = thief()  # root is nobody special over TCP
                self.assertEqual((status, answer.get("error", {}).get("code")),
                                 (403, "admin_only"), answer)
            self.assertEqual(len(server.held()), 1)
            self.assertEqual(as_user(OWNER, revoke)[0], 200)
            self.assertEqual(server.held(), [])
            refused = [e for e in audited(server) if e["who"] == f"uid:{STRANGER}"]
            self.assertIn("403", refused[0]["result"])
            self.assertIn(path, refused[0]["what"])
            self.assertNotIn(f"uid:{OWNER}", [e["who"] for e in audited(server)])  # ordinary use

    @needs_root
    def test_an_operator_revokes_over_the_unix_socket(self):
        with LeaseServer() as server:
            body = {"agent": "own", "memory_gb": 1}
            _, lease = as_user(OWNER, lambda: over_tcp(server, "POST", "/v1/leases", body))
            path = f"/v1/leases/{lease['lease_id']}/revoke"
            self.assertEqual(server.on_socket("POST", path, {"reason": "repair"})[0], 200)
            self.assertEqual(server.held(), [])

    def test_alerts_cannot_be_silenced_over_tcp(self):
        with LeaseServer() as server:
            for method in ("POST", "DELETE"):
                status, answer = over_tcp(server, method, "/v1/alerts/silence", SILENCE)
                self.assertEqual((status, answer.get("error", {}).get("code")), (403, "admin_only"))
            self.assertEqual(server.get("/v1/alerts")["silences"], [])
            self.assertEqual(server.on_socket("POST", "/v1/alerts/silence", SILENCE)[0], 200)
            self.assertEqual(len(server.get("/v1/alerts")["silences"]), 1)
            self.assertEqual([e["result"][:4] for e in audited(server)], ["403 ", "403 ", "done"])

    @needs_root
    def test_another_user_on_the_unix_socket_is_no_administrator(self):
        with LeaseServer() as server:
            open_socket(server)

            def silence():
                return exchange(UnixConnection(server.socket_path), "POST", "/v1/alerts/silence",
                                SILENCE)

            self.assertEqual(as_user(STRANGER, silence)[0], 403)
            self.assertEqual(server.get("/v1/alerts")["silences"], [])

    @needs_root
    def test_the_unix_socket_is_opened_to_others_as_ordinary_users(self):
        key = Keys.environment["SLUICE_SERVE_API_KEY"]
        with tempfile.TemporaryDirectory() as parent:
            os.chmod(parent, 0o755)
            with Server("--demo", "eight-gpus", "--set", "serve.socket_mode=0666",
                        state=parent + "/state", environment=Keys.environment) as server:
                self.assertEqual(os.stat(parent + "/state").st_mode & 0o777, 0o711)

                def ask(method, path, body=None, key=None):
                    connection = UnixConnection(server.announced["socket"])
                    fields = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
                    connection.request(method, path, json.dumps(body) if body else None, fields)
                    return connection.getresponse().status

                silence = ("POST", "/v1/alerts/silence", SILENCE)
                self.assertEqual(as_user(STRANGER, lambda: ask("GET", "/v1/state")), 401)
                self.assertEqual(as_user(STRANGER, lambda: ask(*silence)), 401)
                self.assertEqual(as_user(STRANGER, lambda: ask("GET", "/v1/state", key=key)), 200)
                self.assertEqual(as_user(STRANGER, lambda: ask(*silence, key=key)), 403)
                self.assertEqual(ask(*silence), 200)  # root

    @needs_root
    def test_with_an_api_key_each_user_has_leases_of_their_own(self):
        key = Keys.environment["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", "--set", "broker.max_leases_per_peer=2",
                    environment=Keys.environment) as server:
            body = {"agent": "own", "memory_gb": 1}

            def lease():
                return over_tcp(server, "POST", "/v1/leases", body, key)

            wait_for("the cards", lambda: lease()[1].get("status") in ("allocated", None))
            while lease()[0] == 200:
                pass
            status, answer = lease()
            self.assertEqual(status, 429)
            self.assertIn("Release", answer["error"]["fix"])
            status, answer = as_user(OWNER, lease)
            self.assertEqual((status, answer["status"]), (200, "allocated"), answer)
            path = f"/v1/leases/{answer['lease_id']}/revoke"

            def revoke():
                return over_tcp(server, "POST", path, {"reason": "done"}, key)[0]

            self.assertEqual(as_user(STRANGER, revoke), 403)
            self.assertEqual(as_user(OWNER, revoke), 200)
            entry = audited(server)[-1]
            self.assertEqual((entry["who"], entry["key"]), (f"uid:{STRANGER}", "api"))

    @needs_root
    def test_a_client_that_hangs_up_at_once_is_no_second_user(self):
        """The kernel names no user of a closed socket: it was a peer with limits of its own."""
        body = json.dumps({"agent": "a", "memory_gb": 1, "ttl_s": 600})
        raw = (f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        with LeaseServer("--set", "broker.max_gb_per_peer=8") as server:

            def hang_up():
                for i in range(40):
                    with socket.socket() as client:
                        client.bind((("127.0.0.1", "127.9.9.9")[i % 2], 0))
                        client.connect(("127.0.0.1", server.port))
                        client.setblocking(False)
                        client.send(raw)
                        if i % 4 == 3:  # the end of the connection queues behind this
                            client.send(b" " * 8_000_000)
                return True

            def end_own_side():
                with contextlib.closing(server.connect(within(10))) as client:
                    client.sendall(raw)
                    client.shutdown(socket.SHUT_WR)
                    return heard(client).decode()

            with stopped(server.process):  # it accepts after they have left
                self.assertTrue(as_user(OWNER, hang_up))
            wait_for("all are looked at", lambda: "sluice_http_connections 1\n" in
                     server.ask("/metrics")[2])
            later = threading.Timer(0.5, server.process.send_signal, [signal.SIGCONT])
            with stopped(server.process):
                later.start()
                self.assertIn('"allocated"', as_user(OWNER, end_own_side))
                later.join()
            leases = over_tcp(server, "GET", "/v1/leases")[1]["leases"]
            self.assertEqual([one.get("uid") for one in leases], [OWNER])

    @needs_root
    def test_users_that_are_not_mapped_are_not_one(self):
        """In a rootless container the kernel shows every user from outside as one."""
        under = ("unshare", "--user", "--map-root-user")
        if subprocess.run([*under, "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        with Server("--demo", "eight-gpus", under=under) as server:
            wait_for("it is ready", lambda: server.ask("/health/ready")[0] == 200)

            def ask():
                status, _, text = server.ask("/v1/leases", "POST", {"agent": "job", "memory_gb": 1},
                                             {"Idempotency-Key": "job-1"})
                return status, json.loads(text)

            _, lease = as_user(OWNER, ask)
            status, other = as_user(STRANGER, ask)
            self.assertEqual(status, 200, other)
            self.assertNotEqual(other["lease_id"], lease["lease_id"])
            status, answer = as_user(STRANGER, lambda: over_tcp(
                server, "POST", f"/v1/leases/{lease['lease_id']}/revoke", {"reason": "mine now"}))
            self.assertEqual(status, 403, answer)

    @needs_root
    def test_the_socket_of_another_user_says_what_to_do(self):
        program = os.path.abspath(PROGRAM)
        with tempfile.TemporaryDirectory() as parent:
            os.chmod(parent, 0o755)
            with Server("--demo", "eight-gpus", state=parent + "/state") as server:
                os.chmod(parent + "/state", 0o755)

                def listed():
                    done = subprocess.run([program, "lease", "list", "--socket", server.announced["socket"]],
                                          capture_output=True, text=True, timeout=within(10), cwd="/",
                                          env={"HOME": "/"})
                    return done.stderr

                self.assertIn("serve.socket_mode", as_user(STRANGER, listed))

    @needs_root
    def test_no_command_ends_because_another_user_wants_its_memory(self):
        """`sluice lease request ... -- COMMAND` ends COMMAND when it is asked to yield."""
        wait = {"on_unavailable": "wait", "wait_s": 2, "priority": "critical", "memory_gb": 14,
                "pid": 0}

        def ask():
            return exchange(UnixConnection(server.socket_path), "POST", "/v1/leases",
                            {"agent": "greedy", **wait})

        with LeaseServer() as server, tempfile.TemporaryDirectory() as folder:
            open_socket(server)
            os.chmod(folder, 0o755)
            program = shutil.copy(PROGRAM, folder)  # where any user may run it
            victim = subprocess.Popen(
                [program, "lease", "request", "job", "--memory-gb", "14", "--priority", "low",
                 "--socket", server.socket_path, "--", "sleep", "60"],
                user=OWNER, group=OWNER, extra_groups=[], cwd="/", stderr=subprocess.DEVNULL)
            try:
                wait_for("the job's lease", lambda: len(server.held()) == 1)
                self.assertEqual(as_user(STRANGER, ask)[1]["status"], "failed")
                self.assertEqual([l["state"] for l in server.held()], ["held"])
                self.assertTrue(is_alive(victim))
                as_user(OWNER, ask)  # its own user may
                wait_for("the job ends", lambda: not is_alive(victim))
            finally:
                victim.kill()
                victim.wait()

    @needs_root
    def test_no_process_ends_on_the_word_of_another_user(self):
        wait = {"on_unavailable": "wait", "wait_s": 3, "priority": "critical", "memory_gb": 14}
        with LeaseServer("--set", "broker.escalation=terminate",
                         "--set", "broker.yield_within_s=0.3") as server:
            open_socket(server)
            body = {"agent": "victim", "memory_gb": 14, "priority": "low", "ttl_s": 60}
            with Holder(server, OWNER, body) as victim:
                self.assertEqual(victim.lease["status"], "allocated", victim.lease)
                for ask in (lambda: over_tcp(server, "POST", "/v1/leases",
                                             {"agent": "tcp", **wait}),
                            lambda: exchange(UnixConnection(server.socket_path), "POST",
                                             "/v1/leases", {"agent": "unix", "pid": 0, **wait})):
                    self.assertNotEqual(as_user(STRANGER, ask)[1]["status"], "allocated")
                self.assertTrue(is_alive(victim.process))
                self.assertEqual([l["agent"] for l in server.held()], ["victim"])
                server.on_socket("POST", "/v1/leases", {"agent": "operator", "pid": 0, **wait})
                wait_for("an administrator's word ends it", lambda: not is_alive(victim.process))
                self.assertEqual(victim.process.returncode, -signal.SIGTERM)
                of_broker = wait_for("the audit of both", lambda: (
                    lambda found: found if len(found) == 2 else None)(
                        [e for e in audited(server) if e["who"] == "broker"]))
                lease = f"lease {victim.lease['lease_id']}"
                self.assertEqual([e["what"] for e in of_broker],
                                 [f"revoke {lease}", f"terminate the holder of {lease}"])
                self.assertIn("operator", of_broker[0]["detail"])

    @needs_root
    def test_a_lease_is_not_bound_to_a_process_that_got_the_number_later(self):
        with LeaseServer() as server:
            parent, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            child = os.fork()
            if child == 0:  # connects, hands the connection on and ends
                s = socket.socket(socket.AF_UNIX)
                s.connect(server.socket_path)
                s.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
                s.recv(4096)
                child_end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                            array.array("i", [s.fileno()]))])
                os._exit(0)
            _, control, _, _ = parent.recvmsg(1, socket.CMSG_SPACE(4))
            fd = array.array("i", control[0][2])[0]
            os.waitpid(child, 0)
            victim = None
            for _ in range(200):  # until its number is given to another
                with open("/proc/sys/kernel/ns_last_pid", "w") as f:
                    f.write(str(child - 1))
                victim = subprocess.Popen(["sleep", "60"])
                if victim.pid == child:
                    break
                victim.kill()
                victim.wait()
            try:
                if victim.pid != child:
                    self.skipTest("the number was not given again")
                connection = http.client.HTTPConnection("localhost")
                connection.sock = socket.socket(fileno=fd)
                _, lease = exchange(connection, "POST", "/v1/leases",
                                    {"agent": "x", "memory_gb": 1})
                shown = [l for l in server.held() if l["lease_id"] == lease["lease_id"]]
                self.assertNotEqual([l.get("pid") for l in shown], [child])
                status, answer = exchange(connection, "POST", "/v1/leases",
                                          {"agent": "x", "memory_gb": 1, "pid": child})
                self.assertEqual(status, 400, answer)
                connection.close()
            finally:
                victim.kill()
                victim.wait()


class Keys(unittest.TestCase):
    environment = {"SLUICE_SERVE_API_KEY": "an-api-key-of-32-characters-0001"}

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
        key = self.environment["SLUICE_SERVE_API_KEY"]
        with tempfile.TemporaryDirectory() as state:
            done = subprocess.run([PROGRAM, "serve", "--port", "0", "--state", state], text=True,
                                  env={**os.environ, **self.environment, "SLUICE_SERVE_ADMIN_KEY": key},
                                  capture_output=True, timeout=within(10))
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("admin_key is the same as api_key", done.stderr)

    def test_guesses_from_many_addresses_lock_out_no_other(self):
        key = self.environment["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=self.environment) as server:
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
        key = self.environment["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=self.environment) as server:
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
        key = self.environment["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", environment=self.environment) as server:
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
                           "SLUICE_SERVE_API_KEY": self.environment["SLUICE_SERVE_API_KEY"]}
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
