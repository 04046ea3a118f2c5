"""Attacks on the ledger: one peer takes all it can, and retries that make leases."""
import contextlib, ctypes, encodings.idna, http.client, json, os, signal, socket, tempfile, threading, time, unittest

from hostile.case import attackers, stopped, wait_for, within
from lease_case import LeaseServer

import sluice

GREEDY = 41001  # a user, over TCP; over the Unix socket we are another
TOO_MUCH = {"agent": "greedy", "memory_gb": 500, "ttl_s": 86400}  # for any GPU: on the CPU
MAX_ON_CPU = 60
needs_root = unittest.skipUnless(os.geteuid() == 0, "sockets of another user take root")
LIBC = ctypes.CDLL(None)


@contextlib.contextmanager
def sockets_of(uid):
    """Those that this thread opens meanwhile are of that user."""
    LIBC.setfsuid(uid)
    try:
        yield
    finally:
        LIBC.setfsuid(0)


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.state = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-ledger-"))

    def serve(self, *settings):
        server = LeaseServer("--set", f"broker.max_cpu_leases_per_peer={MAX_ON_CPU}",
                             *settings, state=self.state, wait=False)
        self.stack.enter_context(server)
        wait_for("the cards are known", lambda: sum(
            c["usable"] for c in self.listed(server)["cards"]) == 2)
        return server

    def listed(self, server):
        return sluice.leases(server.address)

    def greedy(self, server, body=None, headers=None):
        """(status, answer) for the greedy user."""
        with sockets_of(GREEDY):
            status, _, text = server.ask("/v1/leases", "POST", body or TOO_MUCH, headers)
        return status, json.loads(text)

    def other(self, server, key=None, **fields):
        """The same for the peer of the socket."""
        body = json.dumps({"agent": "modest", "memory_gb": 1, "pid": 0, **fields})
        connection = server.local()
        try:
            headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
            connection.request("POST", "/v1/leases", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def fill(self, server):
        """Both cards, so that 6 GB have to be waited for."""
        leases = [self.other(server, memory_gb=size)[1] for size in (12, 6)]
        self.assertEqual({lease["status"] for lease in leases}, {"allocated"})
        return leases


class FairnessTest(Case):
    def check_other_is_served(self, server):
        for fields in ({"memory_gb": 0.1}, {"memory_gb": 500}, {"memory_gb": 0.1, "agent": "greedy"}):
            status, answer = self.other(server, **fields)
            self.assertEqual(status, 200, answer)
            self.assertIn(answer["status"], ("allocated", "cpu_fallback"))
            self.assertEqual(server.release(answer)[0], 200)

    @needs_root
    def test_one_peer_leaves_the_others_their_leases_now_and_after_a_restart(self):
        statuses = set()
        server = self.serve()
        for _ in range(2):
            with attackers(4, lambda: statuses.add(self.greedy(server)[0])):
                for _ in range(20):
                    self.check_other_is_served(server)
                wait_for("the greedy peer has all it may have", lambda: 429 in statuses, 30)
            on_cpu = [l for l in self.listed(server)["on_cpu"] if l["agent"] == "greedy"]
            self.assertEqual(len(on_cpu), MAX_ON_CPU)
            for lease in on_cpu:  # although a day was asked for
                self.assertLessEqual(lease["expires_in_s"], 60)
            self.assertEqual(statuses, {200, 429})
            server.stop(signal.SIGKILL)
            server = self.serve()
            statuses = {200}
            self.check_other_is_served(server)

    @needs_root
    def test_waiters_of_one_peer_leave_the_queue_to_others(self):
        server = self.serve("--set", "broker.max_waiting_per_peer=8")
        self.fill(server)
        wish = {"agent": "greedy", "memory_gb": 6, "wait_s": 20}
        statuses = []

        def wait():
            with contextlib.suppress(OSError):  # it is still waiting when the server ends
                statuses.append(self.greedy(server, wish)[0])

        waiters = [threading.Thread(target=wait, daemon=True) for _ in range(12)]
        for waiter in waiters:
            waiter.start()
        wait_for("four are refused", lambda: statuses == [429] * 4)
        self.assertEqual(self.listed(server)["counts"]["waiting"], 8)
        status, answer = self.other(server, memory_gb=6, wait_s=0.2)
        self.assertEqual((status, answer["status"]), (200, "failed"))
        server.stop(signal.SIGKILL)
        for waiter in waiters:
            waiter.join(10)

    def test_clients_that_hang_up_before_identification_get_no_lease(self):
        server = self.serve()
        body = json.dumps(TOO_MUCH)
        raw = (f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        with stopped(server.process):  # it accepts them after they have left
            for i in range(4 * MAX_ON_CPU):
                with socket.socket() as client:
                    client.bind((f"127.0.{1 + i // 200}.{1 + i % 200}", 0))
                    client.connect(("127.0.0.1", server.port))
                    client.sendall(raw)
        self.check_other_is_served(server)
        wait_for("all are looked at", lambda: "sluice_http_connections 1\n" in
                 server.ask("/metrics")[2])
        self.assertEqual(self.listed(server)["counts"]["on_cpu"], 0)

    def test_the_refusal_names_the_limit_and_when_to_come_back(self):
        server = self.serve("--set", "broker.max_leases_per_peer=2")
        for _ in range(2):
            self.assertEqual(self.other(server, memory_gb=0.1)[0], 200)
        status, answer = self.other(server, memory_gb=0.1)
        self.assertEqual((status, answer["error"]["code"]), (429, "exhausted"))
        self.assertIn("broker.max_leases_per_peer", answer["error"]["message"])


    def test_the_name_of_another_uses_up_no_quota_but_its_own(self):
        server = self.serve("--set", "broker.quotas_gb=modest=2")
        self.assertEqual(self.greedy(server, {"agent": "modest", "memory_gb": 2})[1]["status"],
                         "allocated")
        self.assertEqual(self.other(server, memory_gb=2)[1]["status"], "allocated")
        refused = self.other(server, memory_gb=1, on_unavailable="fail")[1]
        self.assertEqual(refused["status"], "failed")
        self.assertIn("broker.quotas_gb", refused["reason"])

    def test_one_peer_holds_no_more_memory_than_it_may(self):
        server = self.serve("--set", "broker.max_gb_per_peer=4")
        wish = {"agent": "greedy", "memory_gb": 3, "on_unavailable": "fail"}
        self.assertEqual(self.greedy(server, wish)[1]["status"], "allocated")
        refused = self.greedy(server, {**wish, "agent": "another name"})[1]
        self.assertEqual(refused["status"], "failed")
        self.assertIn("broker.max_gb_per_peer", refused["reason"])
        self.assertEqual(self.other(server, memory_gb=3)[1]["status"], "allocated")


    def test_a_waiting_peer_reserves_no_capacity_behind_its_own_leases(self):
        server = self.serve("--set", "broker.hold_after_s=0.2")
        cards = {c["gpu_uuid"]: c["total_gb"] for c in self.listed(server)["cards"]}
        for uuid in cards:
            tiny = {"agent": "x", "memory_gb": 0.001, "ttl_s": 3600, "device": uuid}
            self.assertEqual(self.greedy(server, tiny)[1]["status"], "allocated")
        waiters = [threading.Thread(target=self.greedy, daemon=True, args=(server, {
            "agent": "x", "memory_gb": total - 0.0005, "device": uuid, "priority": "critical",
            "wait_s": 5})) for uuid, total in cards.items()]
        for waiter in waiters:
            waiter.start()
        wait_for("they wait", lambda: self.listed(server)["counts"]["waiting"] == len(cards))
        time.sleep(within(1))
        self.assertEqual(self.other(server, memory_gb=4)[1]["status"], "allocated")
        for waiter in waiters:
            waiter.join(20)

    @needs_root
    def test_many_waiting_requests_delay_no_other(self):
        scenario = {"about": "Eight quiet cards.",
                    "gpus": [{"name": "Card of 80", "memory_gib": 80}] * 8}
        with LeaseServer(scenario=scenario, wait=False) as server, contextlib.ExitStack() as stack:
            wait_for("the cards are known", lambda: sum(
                c["usable"] for c in self.listed(server)["cards"]) == 8)
            uuids = [c["gpu_uuid"] for c in self.listed(server)["cards"]]
            mine = self.other(server, memory_gb=0.5, ttl_s=3600)[1]
            self.greedy(server, {"agent": "n", "memory_gb": 0.2, "ttl_s": 3600, "device": uuids[-1]})
            body = json.dumps({"agent": "w", "memory_gb": 71.99, "gpus": 8, "wait_s": 15})
            raw = (f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            connection = stack.enter_context(contextlib.closing(
                http.client.HTTPConnection("127.0.0.1", server.port)))
            with sockets_of(GREEDY):
                for _ in range(400):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                    client.sendall(raw.encode())
                connection.connect()
            for i in range(3000):
                connection.request("POST", "/v1/leases", json.dumps(
                    {"agent": f"x{i % 4}", "memory_gb": 0.001, "priority": "low", "ttl_s": 3600,
                     "device": uuids[i % 8]}),
                    {"Content-Type": "application/json"})
                connection.getresponse().read()
            slowest, began = 0, time.monotonic()
            while time.monotonic() - began < 20:  # they look for others that yield, and give up
                asked = time.monotonic()
                status, mine = server.on_socket("POST", f"/v1/leases/{mine['lease_id']}/renew",
                                                {"token": mine["token"]})
                self.assertEqual(status, 200, mine)
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.02)
            self.assertLess(slowest, within(0.5))


class PagesTest(Case):
    def test_the_list_comes_in_pages(self):
        server = self.serve()
        made = {self.other(server, memory_gb=500)[1]["lease_id"] for _ in range(30)}
        made |= {self.other(server, memory_gb=0.05)[1]["lease_id"] for _ in range(15)}
        seen, cursor, pages = [], "", 0
        while cursor is not None:
            query = f"?limit=10{'&cursor=' + cursor if cursor else ''}"
            status, page = server.on_socket("GET", "/v1/leases" + query)
            self.assertEqual(status, 200, page)
            self.assertLessEqual(max(len(page[k]) for k in ("leases", "waiting", "on_cpu")), 10)
            self.assertEqual(page["counts"], {"leases": 15, "waiting": 0, "on_cpu": 30})
            self.assertEqual(bool(page["cards"]), pages == 0)
            seen += [l["lease_id"] for k in ("leases", "on_cpu") for l in page[k]]
            cursor, pages = page["next"], pages + 1
        self.assertEqual((pages, sorted(seen)), (4, sorted(made)))

    def test_no_cursor_or_limit_of_anyone_harms(self):
        server = self.serve()
        for query in ("limit=0", "limit=1001", "limit=-1", "limit=x", "cursor=", "cursor=1",
                      "cursor=1.2", "cursor=1.2.3.4", "cursor=-1.0.0", "cursor=1.2.x",
                      "cursor=" + "9" * 70 + ".0.0", "cursor=99999999999999999999.0.0",
                      "cursor=%27%20OR%201", "page=2"):
            self.assertEqual(server.on_socket("GET", "/v1/leases?" + query)[0], 400, query)
        far = "18446744073709551615"
        for cursor in ("5.5.5", f"{far}.{far}.0", "0.18446744073709551614.0"):
            status, page = server.on_socket("GET", "/v1/leases?cursor=" + cursor)
            self.assertEqual((status, page["leases"]), (200, []), cursor)


class RetriesTest(Case):
    def test_a_retry_is_the_same_lease_also_after_a_restart(self):
        server = self.serve()
        first = self.other(server, "job-1")[1]
        again = self.other(server, "job-1")[1]
        self.assertEqual((again["lease_id"], again["token"]), (first["lease_id"], first["token"]))
        self.assertEqual(self.listed(server)["counts"]["leases"], 1)
        server.stop(signal.SIGKILL)
        server = self.serve()
        self.assertEqual(self.other(server, "job-1")[1]["token"], first["token"])
        self.assertEqual(self.other(server, "job-1", memory_gb=2)[0], 422)
        server.release(first)
        self.assertNotEqual(self.other(server, "job-1")[1]["lease_id"], first["lease_id"])

    def test_many_at_once_make_one_lease(self):
        server = self.serve()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.other(server, "many")))
                   for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual({status for status, _ in answers}, {200})
        self.assertEqual(len({answer["lease_id"] for _, answer in answers}), 1)
        self.assertEqual(self.listed(server)["counts"]["leases"], 1)

    def test_a_retry_of_one_that_waits_waits_for_the_same_lease(self):
        server = self.serve()
        full = self.fill(server)
        wish = json.dumps({"agent": "a", "memory_gb": 6, "wait_s": 30, "pid": 0})
        head = {"Content-Type": "application/json", "Idempotency-Key": "slow"}
        first, second = server.local(), server.local()
        first.request("POST", "/v1/leases", wish, head)
        waiting = wait_for("it waits", lambda: self.listed(server)["waiting"])
        second.request("POST", "/v1/leases", wish, head)
        time.sleep(within(0.5))
        first.close()  # the client gave up on it, not on its lease
        time.sleep(within(0.2))
        self.assertEqual(self.listed(server)["counts"]["waiting"], 1)
        server.release(full[0])
        answer = json.loads(second.getresponse().read())
        second.close()
        self.assertEqual((answer["status"], answer["lease_id"]),
                         ("allocated", waiting[0]["lease_id"]))

    @needs_root
    def test_keys_belong_to_their_peer(self):
        server = self.serve()
        mine = self.other(server, "shared")[1]
        status, theirs = self.greedy(server, {"agent": "modest", "memory_gb": 1},
                                     {"Idempotency-Key": "shared"})
        self.assertEqual(status, 200)
        self.assertNotEqual(theirs["lease_id"], mine["lease_id"])
        self.assertNotEqual(theirs["token"], mine["token"])

    def test_another_body_under_the_same_key_is_refused(self):
        server = self.serve()
        self.assertEqual(self.other(server, "k")[0], 200)
        status, answer = self.other(server, "k", memory_gb=2)
        self.assertEqual((status, answer["error"]["code"]), (422, "idempotency_key_reused"))
        self.assertEqual(self.listed(server)["counts"]["leases"], 1)

    def test_a_key_is_short_visible_text_given_once(self):
        server = self.serve()
        body = json.dumps({"agent": "a", "memory_gb": 1})
        for key in ("", "a b", "x" * 129, "\u00e4", "k\r\nIdempotency-Key: l"):
            raw = (f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                   f"Connection: close\r\nIdempotency-Key: {key}\r\n\r\n{body}").encode()
            self.assertEqual(server.raw(raw).split(b" ", 2)[1], b"400", key)
        self.assertEqual(self.listed(server)["counts"], {"leases": 0, "waiting": 0, "on_cpu": 0})
        self.assertEqual(self.other(server, "\"" + "x" * 126 + "\"")[0], 200)
