"""A holder whose memory grows without end, reported by the alert while it has not passed its lease.
Usage: lease_growth_test.py SLUICE [TEST...]"""
import os, unittest

from lease_case import LeaseServer, main, wait_for

RULE = "lease-memory-growth"
LEAK_S = 9  # then it stays

SCENARIO = {"about": "A holder that leaks.", "gpus": [{"name": "Card of 16", "memory_gib": 16,
            "processes": [{"pid": os.getpid(), "name": "leaky", "memory_gib": {
                "ramp": {"from": 1, "to": 5, "over_s": LEAK_S}}}]}]}

# As in production, only faster: ten minutes of growth are ten seconds here.
CONFIG = f"""
[[alerts]]
name = "{RULE}"
threshold = 1e9
clear = 5e8
for_s = 0.5
window_s = 10
"""


class Growth(unittest.TestCase):
    def test_growth_is_reported_with_owner_rate_and_promise_and_so_is_its_end(self):
        with LeaseServer("--set", "watch.process_interval_s=1", "--set", "watch.cost_budget=0.5",
                         scenario=SCENARIO, config=CONFIG) as server:
            _, lease = server.on_socket("POST", "/v1/leases", {
                "agent": "leaky", "memory_gb": 6, "ttl_s": 60})
            self.assertEqual(lease["status"], "allocated", lease)

            def alerts_of(kind):
                return [a for a in server.get("/v1/alerts")[kind] if a["rule"] == RULE]

            [alert] = wait_for("the leak is reported", lambda: alerts_of("active"), timeout=15)
            self.assertEqual(alert["device"], f"lease-{lease['lease_id']}")
            self.assertEqual(alert["unit"], "bytes_per_minute")
            self.assertGreater(alert["value"], 10 << 30)  # 27 GiB a minute
            for part in ("leaky", f"pid {os.getpid()}", "GiB a minute since 20", "6.0 GiB are promised"):
                self.assertIn(part, alert["cause"])
            self.assertIn("what leaky keeps", alert["fix"])

            [over] = wait_for("its end is reported", lambda: alerts_of("recent"), timeout=20)
            self.assertIn("no longer grows", over["resolved_because"])
            self.assertEqual(alerts_of("active"), [])
            self.assertNotIn("over_use", server.held()[0])  # all within its lease


if __name__ == "__main__":
    main()
