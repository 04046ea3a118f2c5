"""What the lease routes do with bad, replayed and hostile requests, and with many at once.
Usage: lease_http_test.py SLUICE [TEST...]"""
import json, socket, threading, time, unittest

from lease_case import LeaseServer, exchange, main, wait_for

GOOD = {"agent": "test", "memory_gb": 1, "pid": 0}


class Routes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LeaseServer().__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        wait_for("everything is free", self.server.is_free)

    def post(self, body, path="/v1/leases"):
        return self.server.on_socket("POST", path, body)

    def refused(self, status, body, path="/v1/leases"):
        """The error; nothing may have changed."""
        before = self.snapshot()
        got, answer = self.post(body, path)
        self.assertEqual(got, status, answer)
        self.assertTrue(answer["error"]["message"])
        self.assertTrue(answer["error"]["fix"])
        self.assertLess(len(json.dumps(answer)), 2000)
        self.assertEqual(self.snapshot(), before)
        return answer["error"]

    def snapshot(self):
        now = self.server.leases()
        return [[(l["lease_id"], l["state"], l.get("expires_at")) for l in now[kind]]
                for kind in ("leases", "waiting", "on_cpu", "recent")]


class BadRequests(Routes):
    def test_memory_that_is_no_amount(self):
        for memory in (-1, 0, 1e300, 65537, "8", None, True, [], {}, 1e-9):
            error = self.refused(400, {**GOOD, "memory_gb": memory})
            self.assertIn("memory_gb", error["message"])
        for text in ("NaN", "Infinity", "-Infinity", "1e999"):
            self.refused(400, '{"agent":"test","memory_gb":%s}' % text)

    def test_a_minimum_above_the_wish(self):
        self.assertIn("minimum memory", self.refused(400, {**GOOD, "min_memory_gb": 2})["message"])

    def test_unknown_words_name_the_nearest(self):
        for field, value in (("priority", "urgent"), ("priority", 3), ("on_unavailable", "gpu"),
                             ("placement", "best-fit"), ("bind", "conection")):
            self.assertIn(field, self.refused(400, {**GOOD, field: value})["message"])
        error = self.refused(400, {**GOOD, "prioritty": "high"})
        self.assertIn("'priority'", error["message"])

    def test_names_that_are_no_names_are_refused(self):
        for agent in ("", "x" * 129, "a\nb", "\x00", 5, None, ["a"], "a\x1b", "a\u202eb",
                      "a\u009b31mb"):
            self.refused(400, {**GOOD, "agent": agent})
        self.refused(400, {"memory_gb": 1})
        self.refused(400, b'{"agent":"\xff\xfe","memory_gb":1}')

    def test_devices_that_name_no_card_or_several_are_refused(self):
        for device in ("GPU-", 99, "0000:99:00.0", "../../x"):
            self.refused(400, {**GOOD, "device": device})

    def test_names_of_ten_megabytes_are_refused(self):
        self.refused(413, {**GOOD, "agent": "x" * (10 << 20)})
        self.refused(413, {**GOOD, "model_type": "x" * (10 << 20)})
        self.refused(413, {**GOOD, "x" * (10 << 20): 1})

    def test_values_of_the_wrong_type_or_range(self):
        for field, value in (("ttl_s", 0), ("ttl_s", -5), ("ttl_s", 1e9), ("ttl_s", "60"),
                             ("wait_s", -1), ("wait_s", 1e9), ("gpus", 0), ("gpus", 65),
                             ("gpus", 1.5), ("gpus", -1), ("numa_node", -1), ("linked", 1),
                             ("device", -1), ("device", []), ("client_limits", "yes"),
                             ("pid", -1), ("pid", "1"), ("pid", 1 << 40)):
            self.assertIn(field, self.refused(400, {**GOOD, field: value})["message"])

    def test_bodies_that_are_no_requests(self):
        for body in ("", "{", "[]", "null", '"agent"', "{} {}", "{" * 50000, "[" * 60000,
                     '{"agent":"a","agent":"b","memory_gb":1}'):
            got, answer = self.post(body or b" ")
            self.assertEqual(got, 400, (body[:40], answer))
        self.assertIn("twice", self.refused(
            400, '{"agent":"a","memory_gb":1,"memory_gb":2}')["message"])

    def test_a_process_that_did_not_start_the_asking_one_cannot_be_named(self):
        self.assertIn("pid", self.refused(
            400, {**GOOD, "pid": self.server.process.pid})["message"])
        status, _, text = self.server.ask("/v1/leases", "POST", {**GOOD, "pid": 1})
        self.assertEqual(status, 400, text)  # over TCP nobody is known

    def test_a_page_of_another_site_may_not_ask(self):
        status, _, text = self.server.ask("/v1/leases", "POST", GOOD,
                                          {"Origin": "http://evil.example"})
        self.assertEqual(status, 403, text)
        status, _, text = self.server.ask("/v1/leases", "POST", json.dumps(GOOD),
                                          {"Content-Type": "text/plain"})
        self.assertEqual(status, 415, text)


class Tokens(Routes):
    def setUp(self):
        super().setUp()
        self.lease = self.server.request(ttl_s=60)
        self.addCleanup(lambda: self.server.release(self.lease))
        self.path = f"/v1/leases/{self.lease['lease_id']}"
        self.renew = self.path + "/renew"

    def test_a_replayed_renewal_changes_nothing_and_returns_the_current_token(self):
        status, renewed = self.post({"token": self.lease["token"]}, self.renew)
        self.assertEqual(status, 200)
        before = self.snapshot()
        status, answer = self.post({"token": self.lease["token"]}, self.renew)
        self.assertEqual((status, answer["error"]["code"]), (409, "stale_token"))
        self.assertEqual(answer["token"], renewed["token"])
        self.assertEqual(self.snapshot(), before)

    def test_a_wrong_secret_is_refused_and_learns_nothing(self):
        number, renewals, secret = self.lease["token"].split(".")
        wrong = f"{number}.{renewals}.{int(secret, 16) ^ 1:016x}"
        for path in (self.renew, self.path + "/report"):
            body = {"token": wrong}
            if path.endswith("report"):
                body.update(batch_size=1, peak_memory_gb=1)
            status, answer = self.post(body, path)
            self.assertEqual((status, answer["error"]["code"]), (403, "not_the_holder"))
            self.assertNotIn(secret, json.dumps(answer))
        status, answer = self.server.on_socket("DELETE", self.path, {"token": wrong})
        self.assertEqual(status, 403)
        self.assertEqual(self.server.leases()["leases"][0]["state"], "held")

    def test_the_token_is_shown_to_the_holder_only(self):
        _, shown = self.server.on_socket("GET", self.path)
        secret = self.lease["token"].split(".")[2]
        self.assertNotIn(secret, json.dumps(shown))
        self.assertNotIn(secret, json.dumps(self.server.leases()))

    def test_unknown_ids_and_those_that_are_none(self):
        for path in ("/v1/leases/999999", "/v1/leases/abc", "/v1/leases/-1",
                     "/v1/leases/99999999999999999999999", "/v1/leases/0"):
            self.assertEqual(self.server.on_socket("GET", path)[0], 404, path)
        status, _ = self.post({"token": "999999.0.00000000000000ff"}, "/v1/leases/999999/renew")
        self.assertEqual(status, 404)

    def test_a_token_of_another_lease_is_refused(self):
        other = self.server.request()
        self.addCleanup(self.server.release, other)
        self.refused(400, {"token": other["token"]}, self.renew)

    def test_tokens_that_are_none_are_refused(self):
        for token in ("", "x", "1", "1.0", "1.0.xyz", "1.0.1.1", "-1.0.ff", 5, None, "9" * 60000,
                      "1.0." + "f" * 17):
            self.refused(400, {"token": token}, self.renew)
        self.refused(400, {}, self.renew)
        self.refused(400, {"token": self.lease["token"], "tokn": 1}, self.renew)

    def test_released_twice_is_over_the_second_time(self):
        self.assertEqual(self.server.release(self.lease)[0], 200)
        status, answer = self.server.release(self.lease)
        self.assertEqual((status, answer["error"]["code"]), (410, "lease_over"))
        self.assertEqual(self.post({"token": self.lease["token"]}, self.renew)[0], 410)
        self.assertEqual(self.server.on_socket("GET", self.path)[1]["status"], "ended")

    def test_a_limit_that_is_no_amount_is_refused_and_the_token_stays_good(self):
        for limit in (-1, "8", None, True, [], 1e300):
            error = self.refused(400, {"token": self.lease["token"], "client_limit_bytes": limit},
                                 self.renew)
            self.assertIn("client_limit_bytes", error["message"])
        status, answer = self.post({"token": self.lease["token"], "client_limit_bytes": 1 << 30},
                                   self.renew)
        self.assertEqual(status, 200)
        self.assertNotEqual(answer["enforcement"], "client")  # it did not ask for client_limits

    def test_the_token_may_come_as_a_parameter(self):
        path = f"{self.path}?token={self.lease['token']}"
        self.assertEqual(self.server.on_socket("DELETE", path)[0], 200)

    def test_a_report_with_an_older_token_or_of_a_lease_that_is_over_changes_nothing(self):
        report, said = self.path + "/report", {"batch_size": 8, "peak_memory_gb": 1}
        _, renewed = self.post({"token": self.lease["token"]}, self.renew)
        status, answer = self.post({"token": self.lease["token"], **said}, report)
        self.assertEqual((status, answer["error"]["code"]), (409, "stale_token"))
        self.assertEqual(self.server.release({**self.lease, "token": renewed["token"]})[0], 200)
        self.assertEqual(self.post({"token": renewed["token"], **said}, report)[0], 410)
        self.assertNotIn("history", self.server.request(ttl_s=1)["batch_reason"])

    def test_running_out_of_memory_may_be_reported_alone(self):
        body = {"token": self.lease["token"], "out_of_memory": True}
        self.assertEqual(self.post(body, self.path + "/report")[0], 200)

    def test_an_unknown_lease_is_answered_with_where_to_look(self):
        for path in ("/v1/leases/999999", "/v1/leases/abc"):
            answer = self.server.on_socket("GET", path)[1]
            self.assertIn("GET /v1/leases", answer["error"]["fix"])

    def test_an_expired_token_is_over(self):
        lease = self.server.request(ttl_s=1)
        path = f"/v1/leases/{lease['lease_id']}"
        wait_for("it expires", lambda: self.server.on_socket("GET", path)[1]["status"] == "ended",
                 timeout=3)
        self.refused(410, {"token": lease["token"]}, path + "/renew")
        _, shown = self.server.on_socket("GET", path)
        self.assertEqual(shown["status"], "ended")

    def test_a_report_that_makes_no_sense_is_refused(self):
        path = self.path + "/report"
        for wrong in ({"batch_size": 0}, {"batch_size": -1}, {"batch_size": 1e9}, {"batch_size": 1.5},
                      {"peak_memory_gb": 65536}, {"peak_memory_gb": 17},
                      {"peak_memory_gb": -1}, {"peak_memory_gb": 1e9}, {"out_of_memory": 1},
                      {"peak_memory_gb": 0}, {"batch": 1}):
            self.refused(400, {"token": self.lease["token"], "batch_size": 1, "peak_memory_gb": 1,
                               **wrong}, path)

    def test_a_revocation_needs_a_reason(self):
        for body in ({}, {"reason": ""}, {"reason": 1}, {"reason": "x", "force": True},
                     {"reason": "x\x1b[31m\nred"}, {"reason": "x\u202e"}):
            self.refused(400, body, self.path + "/revoke")
        self.assertEqual(self.post({"reason": "x" * 5000}, self.path + "/revoke")[0], 200)
        self.assertEqual(self.post({"reason": "again"}, self.path + "/revoke")[0], 410)


class Waiting(Routes):
    def test_a_waiting_request_is_answered_when_capacity_appears(self):
        first = self.server.request(memory_gb=13)
        threading.Timer(0.3, self.server.release, [first]).start()
        began = time.monotonic()
        second = self.server.request(memory_gb=12, wait_s=10)
        self.assertEqual(second["status"], "allocated")
        self.assertTrue(0.25 < time.monotonic() - began < 2)
        self.server.release(second)

    def test_a_wait_that_is_over_says_why(self):
        first = self.server.request(memory_gb=13)
        began = time.monotonic()
        second = self.server.request(memory_gb=12, wait_s=0.5)
        self.assertEqual(second["status"], "failed")
        self.assertIn("there was no capacity: 12.0 GiB requested", second["reason"])
        self.assertEqual([l["lease_id"] for l in second["blocked_by"]], [first["lease_id"]])
        self.assertGreater(second["may_fit_in_s"], 10)
        self.assertEqual(len(second["obstacles"]), 2)
        self.assertFalse({"token", "expires_in_s"} & set(second))
        self.assertTrue(0.4 < time.monotonic() - began < 3)
        self.server.release(first)

    def test_a_client_that_disconnects_while_waiting_leaves_the_queue(self):
        first = self.server.request(memory_gb=13)
        waiting = self.server.local()
        waiting.request("POST", "/v1/leases", json.dumps(
            {**GOOD, "memory_gb": 12, "wait_s": 60}), {"Content-Type": "application/json"})
        wait_for("it waits", lambda: self.server.leases()["waiting"])
        waiting.sock.shutdown(socket.SHUT_RDWR)
        waiting.close()
        wait_for("it is gone", lambda: not self.server.leases()["waiting"], timeout=1)
        self.server.release(first)

    def test_a_client_that_disconnects_while_waiting_leaves_the_queue_despite_pipelined_bytes(self):
        first = self.server.request(memory_gb=13)
        body = json.dumps({**GOOD, "memory_gb": 12, "wait_s": 60})
        waiting = self.server.connect()
        waiting.sendall((f"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
                         f"\r\nContent-Type: application/json\r\n\r\n{body}").encode())
        wait_for("it waits", lambda: self.server.leases()["waiting"])
        waiting.sendall(b"GET ")
        waiting.close()
        wait_for("it is gone", lambda: not self.server.leases()["waiting"], timeout=1)
        self.server.release(first)

    def test_closing_the_connection_releases_what_is_bound_to_it_and_nothing_else(self):
        connection = self.server.local()
        bound = self.server.request(connection, bind="connection")
        free = self.server.request(connection)
        connection.close()
        wait_for("it is released", lambda: [l["lease_id"] for l in self.server.held()] == [
            free["lease_id"]], timeout=1)
        self.assertEqual(self.server.on_socket("GET", f"/v1/leases/{bound['lease_id']}")[1]
                         ["status"], "ended")
        self.server.release(free)


class ManyClients(unittest.TestCase):
    def test_64_clients_never_get_more_than_there_is(self):
        with LeaseServer() as server:
            stop, failures, granted = threading.Event(), [], []
            totals = {c["gpu_uuid"]: c["total_gb"] for c in server.leases()["cards"]}

            def client(n):
                connection = server.local()
                try:
                    while not stop.is_set():
                        status, lease = exchange(connection, "POST", "/v1/leases", {
                            "agent": f"a{n % 8}", "memory_gb": 0.25 * (1 + n % 12), "pid": 0,
                            "priority": ("low", "normal", "high")[n % 3]})
                        assert status == 200, lease
                        granted.append(lease["status"] == "allocated")
                        status, answer = exchange(
                            connection, "DELETE", f"/v1/leases/{lease['lease_id']}",
                            {"token": lease["token"]})
                        assert status == 200, answer
                except Exception as e:  # shown below
                    failures.append(repr(e))
                finally:
                    connection.close()

            threads = [threading.Thread(target=client, args=(n,)) for n in range(64)]
            for t in threads:
                t.start()
            end = time.monotonic() + 3
            while time.monotonic() < end:
                now = server.leases()
                promised = {c["gpu_uuid"]: 0 for c in now["cards"]}
                for card in now["cards"]:
                    self.assertLessEqual(card["promised_gb"], card["total_gb"] + 1e-3)
                for lease in now["leases"]:
                    for part in lease["gpus"] if lease["state"] == "held" else []:
                        promised[part["gpu_uuid"]] += part["memory_gb"]
                for uuid, gb in promised.items():
                    self.assertLessEqual(gb, totals[uuid] + 1e-3)
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            self.assertGreater(sum(granted), 64)
            self.assertIn(False, granted)  # they did fight over it
            self.assertEqual(server.held(), [])


if __name__ == "__main__":
    main()
