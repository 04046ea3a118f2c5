"""Attacks on /v1/market: sizes that do not agree, and bodies that cost more to read than to send."""
import json, unittest

from hostile.case import Server, within

import time


class Market(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--demo", "eight-gpus").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, what, body):
        status, headers, text = self.server.ask("/v1/market/" + what, "POST", body)
        return status, json.loads(text), headers

    def refused(self, what, body, *words, status=400):
        got, answer, _ = self.post(what, body)
        self.assertEqual(got, status, str(answer)[:500])
        for word in words:
            self.assertIn(word, answer["error"]["message"])

    def test_a_mean_of_another_size(self):
        returns = [[0.01, -0.02, 0.03, 0.01], [0.02, 0.01, -0.01, 0.02]]
        for goal in ("min_cvar", "cvar_target_return", "cvar_target_risk", "max_sharpe", "frontier"):
            for size in (1, 3, 4, 8, 100000):
                body = {"goal": goal, "returns": returns, "mean": [0.1] * size}
                if "target" in goal:
                    body["value"] = 0.1
                self.refused("portfolio", body, f"'mean' has {size} ", "'returns' has 2")

    def test_an_object_of_many_names(self):
        names = ",".join(f'"n{i}":1' for i in range(200000))
        began = time.monotonic()
        self.refused("rsi", '{"close":[1],' + names + "}", "n0")
        self.refused("rsi", '{"series":{' + names + "}}", "series.n0")
        self.assertLess(time.monotonic() - began, within(3))


if __name__ == "__main__":
    unittest.main()
