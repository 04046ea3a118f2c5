"""Attacks on what belongs to others: their leases, their processes, the alerts of all."""
import array, contextlib, errno, http.client, json, os, shutil, signal, socket, subprocess, tempfile, threading, time, unittest

from hostile.case import Server, heard, memory_of, stopped, wait_for, within
from hostile.users import (OWNER, SILENCE, STRANGER, WITH_KEY, as_user, audited, needs_root,
                           open_socket, over_tcp)
from lease_case import LeaseServer, UnixConnection, exchange
from serve_case import PROGRAM


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
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with tempfile.TemporaryDirectory() as parent:
            os.chmod(parent, 0o755)
            with Server("--demo", "eight-gpus", "--set", "serve.socket_mode=0666",
                        state=parent + "/state", environment=WITH_KEY) as server:
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
        key = WITH_KEY["SLUICE_SERVE_API_KEY"]
        with Server("--demo", "eight-gpus", "--set", "broker.max_leases_per_peer=2",
                    environment=WITH_KEY) as server:
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

    def test_no_stream_outlives_its_process_by_a_descriptor_in_flight(self):
        """A client that sends its own end over the connection leaves it open when it ends."""
        with LeaseServer() as server:
            def files():
                return len(os.listdir(f"/proc/{server.process.pid}/fd"))

            before = files()
            child = os.fork()
            if child == 0:
                for _ in range(40):
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(server.socket_path)
                    s.sendall(b"GET /v1/events?interval=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    s.recv(400)
                    s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                        array.array("i", [s.fileno()]))])
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            wait_for("they are closed", lambda: files() < before + 5, within(5))

    def test_no_request_waits_longer_than_its_process_by_a_descriptor_in_flight(self):
        body = json.dumps({"agent": "q", "memory_gb": 12, "pid": 0, "on_unavailable": "wait",
                           "wait_s": 86400})
        with LeaseServer() as server:
            server.request(memory_gb=13)
            for size in (1, 100_000):  # of what hides the descriptor
                child = os.fork()
                if child == 0:
                    try:
                        for _ in range(20):
                            s = socket.socket(socket.AF_UNIX)
                            s.connect(server.socket_path)
                            s.sendall(f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\n"
                                      f"Content-Type: application/json\r\n"
                                      f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
                            time.sleep(0.05)  # it waits: what comes now is not read with it
                            s.sendall(b"G" * size)
                            s.sendmsg([b"G"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                                array.array("i", [s.fileno()]))])
                        os._exit(0)
                    finally:
                        os._exit(1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                wait_for("none waits", lambda: not server.leases()["waiting"], within(5))

    def test_what_is_sent_while_a_request_waits_is_answered_behind_it(self):
        body = json.dumps({"agent": "q", "memory_gb": 12, "pid": 0, "on_unavailable": "wait",
                           "wait_s": 60})
        with LeaseServer() as server, contextlib.closing(server.local()) as client:
            first = server.request(memory_gb=13)
            client.request("POST", "/v1/leases", body, {"Content-Type": "application/json"})
            wait_for("it waits", lambda: server.leases()["waiting"])
            for part in (b"GET /health/live HTTP/1.1\r\n", b"Host: localhost\r\n\r\n",
                         b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
                         b"X-Long: " + b"x" * 4000 + b"\r\nConnection: close\r\n\r\n"):
                client.sock.sendall(part)
                time.sleep(0.3)
            server.release(first)
            answers = heard(client.sock)
            self.assertEqual(answers.count(b"HTTP/1.1 200 OK"), 3, answers)
            self.assertIn(b'"allocated"', answers)

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
