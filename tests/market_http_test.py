"""The market routes, and what they do with hostile bodies.
Usage: market_http_test.py SLUICE [TEST...]"""
import json, math, threading, time, unittest

from serve_case import Server, main

CLOSE = [100 + math.sin(i / 3) * 5 + i * 0.1 for i in range(120)]


class Market(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, what, body):
        status, _, text = self.server.ask("/v1/market/" + what, "POST", body)
        return status, json.loads(text)

    def done(self, what, **body):
        status, answer = self.post(what, body)
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, what, body, *words, status=400):
        got, answer = self.post(what, body)
        self.assertEqual(got, status, str(answer)[:500])
        said = answer["error"]["message"]
        self.assertLess(len(said), 2000)
        for word in words:
            self.assertIn(word, said)

    def test_an_indicator_of_one_series(self):
        got = self.done("sma", close=[1, 2, 4, 8], timeperiod=2)
        self.assertEqual(got, {"indicator": "SMA", "lookback": 1,
                               "outputs": {"SMA": [None, 1.5, 3, 6]}})
        self.assertEqual(self.done("SMA", real=[1, 2, 4], timeperiod=2)["outputs"]["SMA"],
                         [None, 1.5, 3])

    def test_an_indicator_of_many_series(self):
        got = self.done("mom", close=[[1, 2], [5, 9]], timeperiod=1)
        self.assertEqual(got["outputs"]["MOM"], [[None, 1], [None, 4]])
        got = self.done("mom", series={"A": [1, 2], "B": [5, 9, 10]}, timeperiod=1)
        self.assertEqual(got["series"]["B"]["MOM"], [None, 4, 1])
        got = self.done("trange", series={"A": {"high": [2, 5], "low": [1, 3], "close": [1, 4]}})
        self.assertEqual(got["series"]["A"]["TRANGE"], [None, 4])

    def test_null_is_missing_both_ways(self):
        self.assertEqual(self.done("sma", close=[None, 1, 3], timeperiod=2)["outputs"]["SMA"],
                         [None, None, 2])

    def test_the_device_that_ran_it_can_be_queried(self):
        ran = self.done("rsi", close=CLOSE, device="cpu", explain=True)["ran"]
        self.assertEqual(ran["on"], "cpu")
        self.assertTrue(ran["reason"])

    def test_a_gpu_that_is_not_there_is_not_replaced_in_silence(self):
        status, answer = self.post("rsi", dict(close=CLOSE, device="gpu"))
        if status == 503:  # a build without CUDA
            self.assertIn("no GPU", answer["error"]["message"])
            return
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["ran"]["on"], "cpu")
        self.assertTrue(answer["ran"]["reason"])

    def test_every_calculation_says_why_it_ran_there_and_how_long(self):
        option = dict(spot=60, strike=65, t=0.25, vol=0.3)
        requests = [("option", option), ("option", {**option, "model": "binomial", "steps": 64}),
                    ("montecarlo", dict(payoff="asian", steps=12, paths=8192)),
                    ("montecarlo", dict(payoff="european", paths=8192))]
        for what, fields in requests:
            with self.subTest(what, **fields):
                reason = self.done(what, **fields, device="cpu", explain=True)["ran"]["reason"]
                self.assertIn("requested", reason)
                self.assertGreater(self.done(what, **fields, explain=True)["ran"]["seconds"], 0)
        heston = self.done("option", spot=60, strike=65, t=0.25, model="heston", explain=True)["ran"]
        self.assertEqual(heston["on"], "cpu")
        self.assertIn("Heston", heston["reason"])

    def test_the_other_calculations(self):
        got = self.done("option", spot=60, strike=[65, 70], t=0.25, rate=0.08, vol=0.3)
        self.assertAlmostEqual(got["price"][0], 2.1334, delta=1e-4)
        self.assertEqual(len(got["delta"]), 2)
        self.assertIn("sharpe", self.done("risk", prices={"A": CLOSE})["series"]["A"])
        weights = self.done("portfolio", mean=[0.1, 0.2], covariance=[[0.04, 0], [0, 0.09]],
                            names=["A", "B"])["weights"]
        self.assertAlmostEqual(sum(weights.values()), 1)
        self.assertGreater(self.done("montecarlo", payoff="asian", steps=12, paths=8192)["price"], 0)
        self.assertIn("metrics", self.done("backtest", close=CLOSE)["backtest"])

    def test_the_list(self):
        names = [one["name"] for one in self.server.get("/v1/market")["indicators"]]
        self.assertIn("RSI", names)

    def test_unknown_names_are_refused(self):
        self.refused("rsy", {"close": [1]}, "rsy", status=404)
        self.refused("rsi", {"close": [1], "timeperoid": 3}, "timeperoid", "timeperiod")
        self.refused("rsi", {"close": [1], "rows": 1e9}, "rows")
        self.refused("option", {"spot": 1, "strike": 1, "t": 1, "vol": 1, "model": "bs"}, "model")

    def test_wrong_types_name_the_field(self):
        self.refused("rsi", {}, "close")
        self.refused("rsi", {"close": "1,2"}, "close")
        self.refused("rsi", {"close": [1, "2"]}, "close[1]")
        self.refused("rsi", {"close": [[1, 2], 3]}, "close[1]")
        self.refused("atr", {"high": [1, 2], "low": [1], "close": [1, 2]}, "low")
        self.refused("rsi", {"series": {"A": {"open": [1]}}}, "series.A.close")
        self.refused("rsi", {"close": [1], "timeperiod": 1e300}, "timeperiod")
        self.refused("rsi", {"close": [1], "timeperiod": 2.5}, "timeperiod")
        self.refused("rsi", {"close": [1], "device": "tpu"}, "device")
        self.refused("risk", {"prices": {"A": [1, 2], "B": [1]}}, "prices.B")
        self.refused("risk", {"prices": {}}, "prices")
        self.refused("portfolio", {"covariance": [[1, 0]], "mean": [1]}, "covariance")
        self.refused("portfolio", {"prices": {"A": [1, 2, 3]},
                                   "sectors": [{"assets": ["Z"]}]}, "sectors[0].assets")
        self.refused("montecarlo", {"assets": [{"spot": 1, "vool": 2}]}, "assets[0].vool")
        self.refused("backtest", {"close": [1, -1]}, "bar")
        self.refused("backtest", {"close": CLOSE, "trading": {"fee": "x"}}, "trading.fee")
        self.refused("backtest", {"close": CLOSE, "parameters": {"fast": "5:1"}}, "fast")

    def test_bodies_that_are_no_request(self):
        for body in ("", "[]", "null", "{", '{"close": [NaN]}', '{"close": [1e999]}',
                     '{"close": [1], "close": [2]}', "\x00", "[" * 100000,
                     '{"close":' + "[" * 100000 + "]" * 100000 + "}"):
            status, _, text = self.server.ask("/v1/market/rsi", "POST", body)
            self.assertEqual(status, 400, (body[:40], text[:200]))
            self.assertLess(len(text), 3000)

    def test_extreme_numbers_are_answered(self):
        for values in ([1e308] * 40, [-1e308, 1e308] * 20, [1e-320] * 40, [0] * 40, [None] * 40):
            for what in ("rsi", "bbands", "stddev", "ema"):
                self.done(what, close=values)
            self.assertIn(self.post("risk", {"returns": values})[0], (200, 400))
            self.assertIn(self.post("backtest", {"close": values})[0], (200, 400))
        self.assertIn(self.post("option", {"spot": 1e308, "strike": 1e-308, "t": 1e308,
                                           "vol": 1e308})[0], (200, 400))
        self.done("rsi", close=[])

    def test_claims_of_too_much_work_are_refused(self):
        self.refused("montecarlo", {"paths": 1e12, "steps": 1000}, "paths")
        self.refused("montecarlo", {"paths": 1e300}, "paths")
        self.refused("option", {"model": "binomial", "steps": 16384, "spot": [100] * 1000,
                                "strike": 100, "t": 1, "vol": 0.2}, "steps")
        self.refused("backtest", {"close": CLOSE, "parameters": {"fast": "1:1000:0.001"}}, "fast")
        self.refused("backtest", {"close": CLOSE * 1000,
                                  "parameters": {"fast": "1:3000", "slow": "2:3000"}}, "parameters")
        for anchored in (False, True):
            walk = {"in_sample": 2, "out_of_sample": 1, "anchored": anchored}
            self.refused("backtest", {"close": CLOSE * 100, "walk_forward": walk}, "work units")
        self.refused("risk", {"returns": [[0.1, 0.2]] * 2001, "covariance": "sample"}, "2000")
        self.refused("risk", {"returns": CLOSE, "simulate": True, "paths": 2 ** 30}, "paths")

    def test_a_long_calculation_delays_no_other_request(self):
        body = {"payoff": "asian_price", "steps": 100, "paths": 1 << 18}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.post("montecarlo", body)))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        slowest = 0
        while any(thread.is_alive() for thread in threads):
            began = time.monotonic()
            self.server.get("/health")
            self.assertEqual(self.server.ask("/v1/leases")[0], 200)
            slowest = max(slowest, time.monotonic() - began)
        self.assertEqual([status for status, _ in answers], [200] * 3)
        self.assertEqual(len({a["price"] for _, a in answers}), 1)
        self.assertLess(slowest, 2)

    def test_metrics_count_the_calls(self):
        self.done("rsi", close=CLOSE)
        _, _, text = self.server.ask("/metrics")
        self.assertRegex(text, r'sluice_compute_calls_total\{device="cpu"\} [1-9]')
        self.assertIn('sluice_gpu_fallbacks_total{reason="out_of_memory"} 0', text)


if __name__ == "__main__":
    main()
