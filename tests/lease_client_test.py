"""The Python client against a real server. Usage: lease_client_test.py SLUICE [TEST...]"""
import os, pathlib, signal, subprocess, sys, tempfile, threading, time, unittest, unittest.mock

from hostile.attack_access_clients import FOREIGN, GRANTED, FalseServer
from hostile.users import STRANGER, needs_root
from lease_case import SCENARIO, LeaseServer, main, wait_for
import sluice

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")


def took(began):
    return time.monotonic() - began


def stands_still(pid):
    """Every thread has taken the stop: a signal is sent long before."""
    return all(pathlib.Path(task, "stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


class WithAServer(unittest.TestCase):
    """Two cards, of 16 and 8 GB; each test leaves them free."""

    @classmethod
    def setUpClass(cls):
        cls.server = LeaseServer("--set", "broker.yield_within_s=5").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        wait_for("everything is free", self.server.is_free)

    def lease(self, *arguments, **options):
        return sluice.lease(*arguments, address=self.server.address, **options)

    def held(self):
        return self.server.held()

    def test_a_lease_is_held_in_its_block_and_exported(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "7"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES", None)
        os.environ.pop("SLUICE_LEASE_ID", None)
        with self.lease("scout", memory_gb=4, priority="high") as gpu:
            self.assertTrue(gpu.on_gpu)
            self.assertEqual((gpu.device, gpu.memory_gb), ("cuda:0", 4.0))
            self.assertGreater(gpu.batch_size, 0)
            self.assertGreater(gpu.fencing_token, 0)
            self.assertIn("best fit", gpu.reason)
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], gpu.answer["gpu_uuid"])
            self.assertEqual(os.environ["SLUICE_LEASE_ID"], gpu.lease_id)
            [held] = self.held()
            self.assertEqual((held["agent"], held["priority"], held["pid"]),
                             ("scout", "high", os.getpid()))
        self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "7")
        self.assertNotIn("SLUICE_LEASE_ID", os.environ)
        self.assertEqual(self.held(), [])

    def test_an_exception_in_the_block_releases_it_too(self):
        with self.assertRaises(ZeroDivisionError):
            with self.lease("scout", memory_gb=4):
                1 / 0
        self.assertEqual(self.held(), [])

    def test_a_renewal_slower_than_the_clients_patience_does_not_end_it(self):
        with self.lease("scout", memory_gb=1, ttl_s=6) as gpu:
            gpu._client.timeout = 0.2  # instead of ten seconds
            self.server.process.send_signal(signal.SIGSTOP)
            try:
                wait_for("it stands still", lambda: stands_still(self.server.process.pid), timeout=5)
                with self.assertRaises(sluice.SluiceError):
                    gpu.report(8, 0.5)
                time.sleep(2.5)  # over a renewal
            finally:
                self.server.process.send_signal(signal.SIGCONT)
            wait_for("it is renewed again", lambda: gpu.report(8, 0.5), timeout=5)
            self.assertFalse(gpu.lost)
            self.assertEqual(len(self.held()), 1)

    def test_the_newest_of_two_leases_is_exported_until_it_ends(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "7"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES", None)
        a = self.lease("a", memory_gb=10).acquire()
        b = self.lease("b", memory_gb=7, device=1).acquire()
        a.release()
        self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], b.gpu_uuid)
        self.assertEqual(os.environ["SLUICE_LEASE_ID"], b.lease_id)
        b.release()
        self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "7")
        self.assertNotIn("SLUICE_LEASE_ID", os.environ)

    def test_a_lease_lost_during_a_yield_request_has_no_time_left(self):
        calls = []
        low = self.lease("low", memory_gb=14, priority="low", on_yield=calls.append).acquire()
        self.addCleanup(low.release)
        urgent = threading.Thread(target=lambda: self.server.request(
            memory_gb=14, priority="high", wait_s=1, bind="connection"))
        urgent.start()
        self.addCleanup(urgent.join)
        self.assertTrue(low.wait_for_yield(5))
        self.assertGreater(low.yield_seconds, 1)
        self.server.on_socket("POST", f"/v1/leases/{low.lease_id}/revoke", {"reason": "operator"})
        wait_for("it hears of it", lambda: len(calls) == 2)
        self.assertEqual((calls[1], low.yield_seconds, low.lost), (0.0, 0.0, True))
        self.assertTrue(low.should_yield)

    def test_values_that_cannot_be_sent_raise_the_clients_error(self):
        for wrong in ({"memory_gb": float("nan")}, {"memory_gb": 1, "wait_s": "x"},
                      {"memory_gb": 1, "wait_s": float("inf")}, {"memory_gb": {1, 2}}):
            with self.assertRaises(sluice.SluiceError, msg=wrong):
                self.lease("scout", **wrong).acquire()
        self.assertEqual(self.held(), [])

    def test_heartbeats_keep_it_past_its_time_to_live(self):
        with self.lease("scout", memory_gb=1, ttl_s=1) as gpu:
            time.sleep(2.5)
            self.assertFalse(gpu.lost)
            self.assertEqual(len(self.held()), 1)
            self.assertGreaterEqual(int(gpu._token.split(".")[1]), 4)

    def test_a_killed_process_frees_its_memory_within_a_second(self):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sluice, time, sys\n"
             f"g = sluice.lease('scout', memory_gb=4, address='{self.server.address}').acquire()\n"
             "print(g.status, flush=True)\ntime.sleep(60)"],
            env={**os.environ, "PYTHONPATH": PYTHON}, stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline().strip(), "allocated")
        self.assertEqual(len(self.held()), 1)
        began = time.monotonic()
        child.kill()
        wait_for("it is freed", lambda: not self.held(), timeout=1)
        self.assertLess(took(began), 1)
        child.wait()
        child.stdout.close()

    def test_without_capacity_it_falls_back_to_the_cpu_and_is_notified_of_capacity(self):
        notified = threading.Event()
        with self.lease("big", memory_gb=13) as first:
            with self.lease("late", memory_gb=12, on_capacity=notified.set) as gpu:
                self.assertEqual((gpu.status, gpu.device), ("cpu_fallback", "cpu"))
                self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "-1")
                self.assertTrue(gpu.reason)
                self.assertEqual([l["agent"] for l in gpu.answer["blocked_by"]], ["big"])
                self.assertFalse(gpu.wait_for_capacity(0.3))
                began = time.monotonic()
                first.release()
                self.assertTrue(gpu.wait_for_capacity(5))
                self.assertTrue(notified.wait(1))
                self.assertLess(took(began), 1)

    def test_fail_raises_with_the_reason_and_wait_waits(self):
        with self.lease("big", memory_gb=13) as first:
            with self.assertRaises(sluice.SluiceError) as caught:
                self.lease("late", memory_gb=12, on_unavailable="fail").acquire()
            self.assertIn("12", str(caught.exception))
            threading.Timer(0.3, first.release).start()
            began = time.monotonic()
            with self.lease("late", memory_gb=12, wait_s=10) as gpu:
                self.assertTrue(gpu.on_gpu)
                self.assertTrue(0.25 < took(began) < 3, took(began))

    def test_a_yield_is_heard_within_a_second_and_may_release(self):
        heard = []
        low = self.lease("patient", memory_gb=13, priority="low")
        low._on_yield = lambda s: (heard.append((time.monotonic(), s)), low.release())
        with low:
            began = time.monotonic()
            with self.lease("urgent", memory_gb=12, priority="critical", wait_s=10) as gpu:
                self.assertTrue(gpu.on_gpu)
            self.assertTrue(low.should_yield)
            self.assertLess(heard[0][0] - began, 1)
            self.assertTrue(0 < heard[0][1] <= 5, heard)

    def test_a_yield_that_is_no_longer_needed_is_taken_back(self):
        with self.lease("patient", memory_gb=13, priority="low") as low:
            other = self.server.local()
            other.request("POST", "/v1/leases", '{"agent":"urgent","memory_gb":12,"wait_s":10,'
                          '"priority":"critical"}', {"Content-Type": "application/json"})
            self.assertTrue(low.wait_for_yield(2))
            self.assertTrue(0 < low.yield_seconds <= 5)
            self.assertIn("urgent asks for 12.0 GiB", low.yield_reason)
            other.close()
            wait_for("it may stay", lambda: not low.should_yield)
            self.assertIsNone(low.yield_seconds)
            self.assertEqual(low.yield_reason, "")

    def test_a_revoked_lease_is_lost_and_says_so(self):
        heard = []
        with self.lease("scout", memory_gb=1, on_yield=heard.append) as gpu:
            self.server.on_socket("POST", f"/v1/leases/{gpu.lease_id}/revoke", {"reason": "noon"})
            wait_for("it is lost", lambda: gpu.lost and heard, timeout=1)
            self.assertTrue(gpu.should_yield)
            self.assertEqual(heard, [0.0])

    def test_a_lost_answer_costs_nothing(self):
        with self.lease("scout", memory_gb=1) as gpu:
            status, _ = self.server.on_socket("POST", f"/v1/leases/{gpu.lease_id}/renew",
                                              {"token": gpu._token})
            self.assertEqual(status, 200)  # its answer never reached the client
            gpu._renew()
            self.assertEqual(int(gpu._token.split(".")[1]), 2)
            self.assertFalse(gpu.lost)

    def test_reports_change_the_advice(self):
        with self.lease("learner", memory_gb=4) as gpu:
            gpu.report(batch_size=8, peak_memory_gb=1.0)
            gpu.report(batch_size=16, peak_memory_gb=2.0)
            with self.assertRaises(sluice.SluiceError):
                gpu.report(batch_size=-1, peak_memory_gb=1.0)
        with self.lease("learner", memory_gb=4) as gpu:
            self.assertTrue(16 < gpu.batch_size <= 32, gpu.answer["batch_reason"])
            gpu.report(out_of_memory=True)  # with the batch that was advised
        with self.lease("learner", memory_gb=4) as smaller:
            self.assertLess(smaller.batch_size, gpu.batch_size)

    def test_a_run_on_the_cpu_teaches_nothing_about_a_gpu(self):
        with self.lease("careful", memory_gb=4000) as on_cpu:
            self.assertEqual(on_cpu.status, "cpu_fallback")
            self.assertIsNone(on_cpu.report(batch_size=512, peak_memory_gb=1.0))
        with self.lease("careful", memory_gb=4) as gpu:
            self.assertNotIn("history", gpu.answer["batch_reason"])

    def test_two_threads_have_a_lease_each_and_share_one(self):
        found, failures = [], []

        def work(n):
            try:
                for _ in range(5):
                    with self.lease(f"agent{n}", memory_gb=0.5, export=False) as gpu:
                        found.append(gpu.lease_id)
            except Exception as e:  # shown below
                failures.append(e)

        with self.lease("shared", memory_gb=1, ttl_s=1) as shared:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            threads += [threading.Thread(target=lambda: [
                shared.report(batch_size=4, peak_memory_gb=0.5) for _ in range(20)])
                for _ in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertFalse(shared.lost)
        self.assertEqual(failures, [])
        self.assertEqual(len(set(found)), 20)

    def test_a_fork_does_not_release_the_parents_lease(self):
        with self.lease("scout", memory_gb=1) as gpu:
            child = os.fork()
            if child == 0:
                gpu.release()
                os._exit(0)
            os.waitpid(child, 0)
            time.sleep(0.2)
            self.assertEqual(len(self.held()), 1)
            gpu._renew()

    def test_bad_values_raise_the_servers_words(self):
        with self.assertRaises(sluice.SluiceError) as caught:
            self.lease("scout", memory_gb=-1).acquire()
        self.assertEqual(caught.exception.status, 400)
        self.assertIn("memory_gb", str(caught.exception))
        with self.assertRaisesRegex(sluice.SluiceError, "prioriti|priority"):
            self.lease("scout", memory_gb=1, priority="urgent").acquire()
        with self.assertRaisesRegex(sluice.SluiceError, "ttl_s"):
            self.lease("scout", memory_gb=1, ttl=5).acquire()

    def test_over_tcp_it_lives_by_its_heartbeat(self):
        with sluice.lease("far", memory_gb=1, ttl_s=1,
                          address=f"http://127.0.0.1:{self.server.port}") as gpu:
            time.sleep(1.5)
            self.assertFalse(gpu.lost)
            [held] = self.held()
            self.assertNotIn("pid", held)
        self.assertEqual(self.held(), [])


class WithoutAServer(unittest.TestCase):
    def test_the_error_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(sluice.SluiceError) as caught:
                sluice.lease("scout", memory_gb=1, address=f"unix:{folder}/no.sock").acquire()
        self.assertIn("sluice serve", str(caught.exception))
        self.assertIn("no.sock", str(caught.exception))
        self.assertIsNone(caught.exception.status)


class FalseServers(unittest.TestCase):
    def test_a_server_sets_no_variable_but_those_of_a_lease(self):
        for name in FOREIGN:
            before = dict(os.environ)
            with self.subTest(name), FalseServer({**GRANTED, "env": {name: "x"}}) as server:
                for export in (True, False):  # the caller may hand on what it reads in the answer
                    with self.assertRaisesRegex(sluice.SluiceError, "that a lease does not set") as caught:
                        sluice.lease("x", memory_gb=1, address=server.url, export=export).acquire()
                    self.assertNotIn("\x1b", str(caught.exception))
                    self.assertEqual(dict(os.environ), before)
        for value in ("a\0b", 5, None):
            with FalseServer({**GRANTED, "env": {"SLUICE_GPU_BUS": value}}) as server:
                with self.assertRaisesRegex(sluice.SluiceError, "SLUICE_GPU_BUS"):
                    sluice.lease("x", memory_gb=1, address=server.url).acquire()

    def guess(self, server):
        """A lease of the server that is tried where none is named."""
        with tempfile.TemporaryDirectory() as empty, \
                unittest.mock.patch.dict(os.environ, {"SLUICE_STATE_DIR": empty}), \
                unittest.mock.patch("sluice._client._GUESS", server.url):
            for name in ("SLUICE_URL", "SLUICE_SOCKET"):
                os.environ.pop(name, None)
            with sluice.lease("x", memory_gb=1, export=False) as gpu:
                return gpu.status

    @needs_root
    def test_a_listener_of_another_user_that_nobody_named_is_sent_nothing(self):
        with FalseServer(uid=STRANGER) as server:
            with self.assertRaisesRegex(sluice.SluiceError, rf"uid {STRANGER}.*SLUICE_URL"):
                self.guess(server)
            self.assertFalse(server.was_asked())
            with sluice.lease("x", memory_gb=1, export=False, address=server.url) as gpu:
                self.assertTrue(gpu.on_gpu)  # named, so trusted

    def test_a_listener_of_the_own_user_is_asked(self):
        with FalseServer() as server:
            self.assertEqual(self.guess(server), "allocated")

    def test_renewals_of_odd_types_fail_and_the_next_is_tried(self):
        for renewal in ({"token": 5}, {"token": "1", "yield_in_s": "x"}, [1], {}):
            with self.subTest(renewal), FalseServer(renewal=renewal) as server:
                before = set(threading.enumerate())
                with sluice.lease("x", memory_gb=1, address=server.url, export=False) as gpu:
                    time.sleep(0.8)  # over two renewals
                    self.assertFalse(gpu.lost)
                    alive = set(threading.enumerate()) - before
                    self.assertEqual(len(alive), 2, "one renews and one listens")


class OverUse(unittest.TestCase):
    def test_the_holder_hears_how_much_it_has_past_its_lease(self):
        scenario = {"gpus": [{"name": "Card of 16", "memory_gib": 16, "processes": [
            {"pid": os.getpid(), "name": "greedy", "memory_gib": 6}]}]}
        with LeaseServer(scenario=scenario) as server:
            with sluice.lease("greedy", memory_gb=4, address=server.address, export=False) as gpu:
                wait_for("over-use is reported", lambda: gpu.over_use == 2 << 30, timeout=5)


class FakeTorch:
    """What the client uses of PyTorch, for a card of 16 GB."""

    def __init__(self, reads_back=None):
        self.cuda, self.fraction = self, 1.0
        if reads_back is not None:
            self.get_per_process_memory_fraction = lambda _: reads_back(self.fraction)

    def get_device_properties(self, _):
        self.total_memory = 16 << 30
        return self

    def set_per_process_memory_fraction(self, fraction, _):
        self.fraction = fraction


class Limits(unittest.TestCase):
    """The tier is `client` only with a limit that was read back, and a holder that was seen."""

    def tiers(self, *torches):
        scenario = {"gpus": [{"name": "Card of 16", "memory_gib": 16, "processes": [
            {"pid": os.getpid(), "name": "held", "memory_gib": 2}]}]}
        self.addCleanup(sys.modules.pop, "torch", None)
        with LeaseServer(scenario=scenario) as server:
            for torch in torches:
                sys.modules["torch"] = torch
                with sluice.lease("scout", memory_gb=4, address=server.address) as gpu:
                    yield gpu.answer["enforcement"], server.held()[0]["enforcement"], torch.fraction

    def test_a_limit_that_was_read_back_is_claimed_and_no_other(self):
        self.assertEqual(list(self.tiers(
            FakeTorch(lambda fraction: fraction), FakeTorch(), FakeTorch(lambda _: 1.0))),
            [("client", "client", 0.25), ("observed", "observed", 0.25),
             ("observed", "observed", 0.25)])

    def test_two_leases_of_a_process_add_up_and_leave_nothing_behind(self):
        scenario = {"gpus": [{"name": "Card of 16", "memory_gib": 16, "processes": [
            {"pid": os.getpid(), "name": "held", "memory_gib": 2}]}]}
        torch = sys.modules["torch"] = FakeTorch(lambda fraction: fraction)
        self.addCleanup(sys.modules.pop, "torch", None)
        with LeaseServer(scenario=scenario) as server:
            with sluice.lease("first", memory_gb=4, address=server.address) as first:
                with sluice.lease("second", memory_gb=2, address=server.address) as second:
                    self.assertEqual(torch.fraction, 0.375)
                    self.assertEqual([first.enforcement, second.enforcement], ["client", "client"])
                self.assertEqual(torch.fraction, 0.25)
        self.assertEqual(torch.fraction, 1.0)


class Restarts(unittest.TestCase):
    def test_a_lease_survives_a_killed_server_and_is_renewed_after(self):
        with tempfile.TemporaryDirectory() as state:
            server = LeaseServer(state=state)
            with sluice.lease("scout", memory_gb=4, ttl_s=3, address=server.address,
                              export=False) as gpu:  # the next server must not see it
                before = gpu._token
                server.process.kill()
                server.__exit__()
                with LeaseServer(state=state) as again:
                    [held] = again.held()
                    self.assertEqual(held["lease_id"], gpu.lease_id)
                    wait_for("it is renewed", lambda: gpu._token.split(".")[1] !=
                             before.split(".")[1], timeout=5)
                    wait_for("the events are heard again",
                             lambda: gpu._listener._connection is not None)
                    self.assertFalse(gpu.lost)
                    gpu.release()
                    self.assertEqual(again.held(), [])


if __name__ == "__main__":
    main()
