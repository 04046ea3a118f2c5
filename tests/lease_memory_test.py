"""What holders really take, seen at the usual pace of one sample a second, and holders that
outlive the server. Usage: lease_memory_test.py SLUICE [TEST...]"""
import json, os, subprocess, sys, tempfile, time, unittest

import onnx_write as onnx
from lease_case import PROGRAM, Events, LeaseServer, main, wait_for

PERIOD_S = 1  # watch.interval_s as it is set without a word
STEPS = [[0, 1], [5, 6], [10, 2]]  # GiB of this process, from these seconds of the scenario on

SCENARIO = {"about": "A holder that takes more than its lease, and gives it back.",
            "gpus": [{"name": "Card of 16", "memory_gib": 16, "processes": [
                {"pid": os.getpid(), "name": "greedy", "memory_gib": {"steps": STEPS}}]}]}

# Holds a lease bound to its connection, which it never renews.
HOLDER = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
from lease_case import UnixConnection, exchange
connection = UnixConnection(sys.argv[1])
print(json.dumps(exchange(connection, "POST", "/v1/leases", {
    "agent": "bound", "memory_gb": 1, "ttl_s": 600, "bind": "connection"})[1]), flush=True)
time.sleep(600)
"""


def epoch_s(server):
    """When the scenario began, by this machine's monotonic clock: passed to its sampler."""
    pid = server.get("/v1/state")["sampler"]["pid"]
    with open(f"/proc/{pid}/cmdline") as f:
        words = f.read().split("\0")
    return int(words[words.index("--epoch") + 1]) / 1e9


class OverUse(unittest.TestCase):
    def test_over_use_is_reported_within_two_samples_and_so_is_its_end(self):
        with LeaseServer("--set", f"watch.interval_s={PERIOD_S}", "--set", "watch.cost_budget=0.01",
                         scenario=SCENARIO) as server:
            with Events(server, "?interval=0") as events:
                _, lease = server.on_socket("POST", "/v1/leases", {
                    "agent": "greedy", "memory_gb": 3, "ttl_s": 60})
                self.assertEqual(lease["status"], "allocated", lease)
                began = epoch_s(server)
                over = events.next("lease_over_use")
                late = time.monotonic() - began - STEPS[1][0]
                self.assertGreater(late, 0)
                self.assertLess(late, 2 * PERIOD_S)
                self.assertEqual(over["data"]["over_use"], 3 << 30)
                [row] = server.held()
                self.assertEqual((row["over_use"], row["used_gb"]), (3 << 30, 6))
                shown = server.get(f"/v1/leases/{lease['lease_id']}")
                self.assertEqual(shown["over_use"], 3 << 30)

                events.next("lease_within_again")
                self.assertLess(time.monotonic() - began - STEPS[2][0], 2 * PERIOD_S)
                self.assertNotIn("over_use", server.held()[0])

                released = time.monotonic()
                server.release(lease)
                drained = events.next("lease_drained")
                self.assertLess(time.monotonic() - released, 2.5 * PERIOD_S)
                self.assertEqual(drained["data"]["retained_gb"], 2)  # its process kept them


class Bound(unittest.TestCase):
    def test_after_a_restart_a_bound_lease_ends_with_its_process(self):
        with tempfile.TemporaryDirectory() as state:
            server = LeaseServer(state=state)
            tests = os.path.dirname(os.path.abspath(__file__))
            holder = subprocess.Popen([sys.executable, "-c", HOLDER, server.socket_path, tests],
                                      stdout=subprocess.PIPE, text=True)
            try:
                lease = json.loads(holder.stdout.readline())
                server.process.kill()
                server.__exit__()
                with LeaseServer(state=state) as again:
                    [held] = again.held()
                    self.assertEqual((held["lease_id"], held["pid"]), (lease["lease_id"], holder.pid))
                    self.assertGreater(held["expires_in_s"], 60)  # not for want of a renewal
                    holder.kill()
                    holder.wait()
                    wait_for("its memory is free", lambda: not again.held(), timeout=3)
                    ended = again.get(f"/v1/leases/{lease['lease_id']}")
                    self.assertIn("is gone", ended["reason"])
            finally:
                holder.kill()
                holder.wait()
                holder.stdout.close()


class Models(unittest.TestCase):
    """y = relu(x w) with x of [batch, 1024]: 12 KiB an item, and 4 MiB of weights."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = self.path("matmul.onnx")
        with open(self.model, "wb") as f:
            f.write(onnx.model(
                [onnx.node("MatMul", ["x", "w"], ["a"]), onnx.node("Relu", ["a"], ["y"])],
                [onnx.value("x", "float32", ["batch", 1024])],
                [onnx.value("y", "float32", ["batch", 1024])],
                [onnx.floats("w", [1024, 1024], [0.5] * (1 << 20))]))

    def path(self, name):
        return os.path.join(self.folder, name)

    def sluice(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_batch_follows_the_models_plan_until_there_are_reports(self):
        plan = self.path("matmul.plan")
        self.sluice("compile", self.model, "--batch", "1,64", "-o", plan)
        with LeaseServer(config=f'[broker]\nplans = {{ matmul = "{plan}", gone = "/x.plan" }}\n'
                         ) as server:
            def ask():
                return server.request(memory_gb=0.125, model_type="matmul")

            lease = ask()
            self.assertIn("its compiled plan takes", lease["batch_reason"])
            self.assertTrue(9000 < lease["batch_size"] < 16000, lease)
            path = f"/v1/leases/{lease['lease_id']}/report"
            status, _ = server.on_socket("POST", path, {
                "token": lease["token"], "batch_size": 100, "peak_memory_gb": 0.12})
            self.assertEqual(status, 200)
            self.assertIn("its last batch of 100", ask()["batch_reason"])
            other = server.request(memory_gb=0.125, model_type="gone")
            self.assertNotIn("plan", other["batch_reason"])

    def test_allocations_of_our_engine_are_recorded_and_replayed(self):
        for how in ((), ("--node-by-node",)):
            trace = self.path("engine.trace")
            self.sluice("memory", "record", self.model, "--batch", "1,64", "--rounds", "2", *how,
                        "-o", trace, "--force")
            [report] = json.loads(self.sluice("memory", "report", trace, "--json"))["traces"]
            self.assertGreaterEqual(report["allocations"], 4)
            self.assertEqual(report["live_at_end"], 0)
            self.assertGreaterEqual(report["peak_live_bytes"], 64 * 4096)
            self.assertIn("engine", report["source"])
            self.sluice("memory", "replay", trace, "--passes", "1", "--json")


if __name__ == "__main__":
    main()
