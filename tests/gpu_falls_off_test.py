"""`sluice serve` while GPUs of a demo fall off the bus and come back.
Usage: gpu_falls_off_test.py SLUICE [TEST...]"""
import json, os, shutil, time, unittest

from serve_case import Server, check_metrics, main, wait_for


def slower_than_50_ms(server):
    """(requests that took the server longer than that, all), by its own account."""
    text = server.ask("/metrics")[2]
    bucket = "sluice_http_request_duration_seconds_bucket"
    def count(bound):
        return int(text.split(f'{bucket}{{le="{bound}"}} ')[1].split()[0])
    return count("+Inf") - count("0.05"), count("+Inf")


def undocumented(text):
    """Names on /metrics that docs/metrics.md does not have."""
    page = os.path.join(os.path.dirname(__file__), "..", "docs", "metrics.md")
    with open(page) as f:
        known = f.read()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    return sorted(n for n in names if f"`{n}" not in known)


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
    main()
