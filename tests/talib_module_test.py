"""sluice.talib against TA-Lib itself. Usage: talib_module_test.py LIBRARY [TEST...]"""
import inspect, os, pathlib, sys, unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
if len(sys.argv) > 1:
    os.environ["SLUICE_LIBRARY"] = sys.argv[1]
try:
    import numpy as np, talib
except ImportError as e:
    print(f"SKIPPED: {e}; tests/requirements.txt lists what is needed")
    sys.exit(77)
import sluice.market as market
import sluice.talib as ours

BARS = 700


def inputs(kind):
    """Open, high, low, close and volume by name."""
    source = np.random.default_rng(7)
    steps = source.normal(0, 0.01, BARS)
    if kind == "constant":
        steps[:] = 0
    close = 100 * np.exp(np.cumsum(steps))
    if kind == "spike":
        close[BARS // 2] *= 1e6
    if kind == "small":
        close *= 1e-3
    spread = np.abs(source.normal(0, 0.005, BARS)) * close * (kind != "constant")
    made = {"real": close, "close": close, "high": close + spread, "low": close - spread,
            "open": np.roll(close, 1), "volume": np.floor(source.uniform(1e3, 1e6, BARS))}
    if kind == "leading_nan":
        for name in made:
            made[name] = made[name].copy()
            made[name][:17] = np.nan
    return made


def common():
    """Functions that both have."""
    return [f for f in ours.get_functions() if hasattr(talib, f)]


def names_of(function):
    return list(inspect.signature(function).parameters)


class AgainstTaLib(unittest.TestCase):
    def compare(self, name, kind, scale=None, **parameters):
        data = inputs(kind)
        arrays = [data[n] for n in names_of(getattr(ours, name)) if n in data]
        mine, theirs = getattr(ours, name)(*arrays, **parameters), getattr(talib, name)(
            *arrays, **parameters)
        self.assertEqual(isinstance(mine, tuple), isinstance(theirs, tuple), name)
        for a, b in zip(*[(x if isinstance(x, tuple) else (x,)) for x in (mine, theirs)]):
            self.assertEqual(a.dtype, np.float64)
            size = max(np.nanmax(np.abs(b), initial=0), scale or 1e-12)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * size,
                                       err_msg=f"{name} {kind} {parameters}")

    def test_defaults_on_random_prices(self):
        self.assertGreaterEqual(len(common()), 29)
        for name in common():
            self.compare(name, "random")

    def test_leading_nans_give_the_same_values(self):
        for name in common():
            self.compare(name, "leading_nan")

    def test_constant_prices_give_the_same_values(self):
        for name in common():
            if name != "CCI":  # 0 / 0 of rounding
                self.compare(name, "constant", scale=100)

    def test_a_spike_stays_in_no_window(self):
        # TA-Lib's running sums keep the spike's rounding; ours do not. Its size is 1e8.
        for name in ("SMA", "EMA", "WMA", "MAX", "MIN", "MOM", "ROC", "WILLR", "RSI"):
            self.compare(name, "spike", scale=1e8)

    def test_periods_give_the_same_values(self):
        for period in (2, 3, 9, 30, 250):
            for name in ("SMA", "EMA", "WMA", "RSI", "MOM", "ATR", "ADX", "WILLR", "CCI", "BBANDS",
                         "STDDEV", "MAX"):
                self.compare(name, "random", timeperiod=period)

    def test_other_parameters_give_the_same_values(self):
        self.compare("BBANDS", "random", timeperiod=20, nbdevup=1.5, nbdevdn=2.5, matype=1)
        self.compare("MACD", "random", fastperiod=5, slowperiod=35, signalperiod=5)
        self.compare("STOCH", "random", fastk_period=14, slowk_period=3, slowd_period=5,
                     slowd_matype=0)
        self.compare("STOCHRSI", "random", timeperiod=14, fastk_period=5, fastd_period=3)
        self.compare("MA", "random", timeperiod=10, matype=1)

    def test_arguments_have_the_same_names(self):
        from talib import abstract
        for name in set(common()) - {"VWAP"}:  # ours has a period beside
            theirs = list(abstract.Function(name).parameters)
            mine = [n for n in names_of(getattr(ours, name))
                    if n not in ("real", "open", "high", "low", "close", "volume", "device",
                                 "zero_variance")]
            self.assertEqual(mine, theirs, name)


class LikeTaLib(unittest.TestCase):
    def both(self, call):
        found = []
        for module in (ours, talib):
            with self.assertRaises(Exception) as caught:
                call(module)
            found.append(caught.exception)
        return found

    def test_mistakes_are_reported_alike(self):
        close = inputs("random")["close"]
        for call in (lambda m: m.RSI(close.astype(int)), lambda m: m.RSI(close.tolist()),
                     lambda m: m.ATR(close, close[:-1], close)):
            mine, theirs = self.both(call)
            self.assertEqual(str(mine), str(theirs))
            self.assertIs(type(mine), type(theirs))
        mine, theirs = self.both(lambda m: m.RSI(close, timeperiod=1))
        self.assertIn(str(theirs), str(mine))

    def test_periods_that_are_no_int_are_cut_off_alike(self):
        close = inputs("random")["close"]
        for period in (10.0, 10.7, np.float64(3), np.int32(7), np.int64(30)):
            for module in (ours, talib):
                np.testing.assert_array_equal(module.RSI(close, period),
                                              module.RSI(close, int(period)))
        for period in ("10", None, [3]):
            self.assertEqual({type(e) for e in self.both(lambda m: m.RSI(close, period))}, {TypeError})

    def test_bytes_in_another_order(self):
        close = inputs("random")["close"]
        np.testing.assert_array_equal(ours.EMA(close.astype(">f8")), ours.EMA(close))

    def test_names_that_existing_code_asks_for(self):
        for name in ("SMA", "EMA", "WMA", "DEMA", "TEMA", "TRIMA", "KAMA", "MAMA", "T3"):
            self.assertEqual(getattr(ours.MA_Type, name), getattr(talib.MA_Type, name))
        for number in range(3):
            self.assertEqual(ours.MA_Type[number], talib.MA_Type[number])
        with self.assertRaisesRegex(Exception, "TA_BAD_PARAM"):
            ours.BBANDS(inputs("random")["close"], matype=ours.MA_Type.T3)
        self.assertTrue(talib.__ta_version__.startswith(ours.__version__.encode()))
        theirs = talib.get_function_groups()
        for group, names in ours.get_function_groups().items():
            for name in set(names) & set(talib.get_functions()):
                self.assertIn(name, theirs[group])

    def test_marks_for_defaults(self):
        close = inputs("random")["close"]
        np.testing.assert_array_equal(ours.RSI(close, timeperiod=-2 ** 31), ours.RSI(close))

    def test_short_and_empty_inputs(self):
        for size in (0, 1, 5):
            found = ours.RSI(np.ones(size))
            self.assertEqual(found.shape, (size,))
            self.assertTrue(np.isnan(found).all())

    def test_the_input_is_not_touched(self):
        close = inputs("random")["close"]
        before = close.copy()
        close.flags.writeable = False
        ours.BBANDS(close)
        np.testing.assert_array_equal(close, before)

    def test_strides(self):
        close = inputs("random")["close"]
        np.testing.assert_array_equal(ours.EMA(close[::2]), ours.EMA(close[::2].copy()))


class BeyondTaLib(unittest.TestCase):
    def test_many_series_at_once_are_the_single_ones(self):
        prices = 100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.01, (37, 500)), axis=1))
        upper, _, _ = ours.BBANDS(prices)
        for i in range(len(prices)):
            np.testing.assert_array_equal(upper[i], ours.BBANDS(prices[i])[0])

    def test_single_precision(self):
        close = inputs("random")["close"]
        found = ours.SMA(close.astype(np.float32), 10)
        self.assertEqual(found.dtype, np.float32)
        np.testing.assert_allclose(found, ours.SMA(close, 10), rtol=1e-5)

    def test_a_gpu_requested_by_name_is_used_or_an_error(self):
        close = inputs("random")["close"]
        try:
            found = ours.SMA(close, 10, device="gpu")
        except Exception as refused:  # where there is none
            self.assertIn("auto takes the CPU", str(refused))
        else:
            np.testing.assert_allclose(found, ours.SMA(close, 10, device="cpu"), rtol=1e-12)

    def test_pandas_in_pandas_out(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        close = pandas.Series(inputs("random")["close"], index=range(1000, 1000 + BARS))
        found = ours.RSI(close)
        self.assertIsInstance(found, pandas.Series)
        self.assertTrue(found.index.equals(close.index))
        np.testing.assert_array_equal(found.to_numpy(), ours.RSI(close.to_numpy()))

    def test_lookback_and_lists(self):
        self.assertEqual(ours.lookback("RSI", timeperiod=14), 14)
        self.assertIn("RSI", ours.get_functions())
        with self.assertRaisesRegex(ValueError, "XXX"):
            ours.lookback("XXX")

    def test_threads(self):
        from concurrent.futures import ThreadPoolExecutor
        close = inputs("random")["close"]
        expected = ours.RSI(close)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: ours.RSI(close), range(64)):
                np.testing.assert_array_equal(found, expected)


class Market(unittest.TestCase):
    def test_options_risk_portfolio_and_backtest(self):
        got = market.option(spot=60, strike=np.array([65.0, 70.0]), t=0.25, rate=0.08, vol=0.3)
        self.assertAlmostEqual(got["price"][0], 2.1334, delta=1e-4)
        prices = {"A": inputs("random")["close"], "B": inputs("small")["open"][::-1].copy()}
        risk = market.risk(prices=prices)["series"]
        self.assertAlmostEqual(risk["A"]["total_return"], prices["A"][-1] / prices["A"][0] - 1)
        weights = market.portfolio(prices=prices, goal="min_volatility")["weights"]
        self.assertAlmostEqual(sum(weights.values()), 1)
        found = market.backtest(close=prices["A"], parameters={"fast": [5, 10], "slow": 50})
        self.assertEqual(found["sweep"]["trials"], 2)

    def test_dates_of_any_kind(self):
        import datetime
        close = inputs("random")["close"]
        days = np.arange(BARS) + np.datetime64("2020-01-01")
        expected = [str(d) for d in days]
        for dates in (expected, days, days.astype("datetime64[ns]"),
                      [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(BARS)],
                      [datetime.datetime(2020, 1, 1) + datetime.timedelta(i) for i in range(BARS)]):
            self.assertEqual(market.backtest(close=close, dates=dates)["backtest"]["dates"], expected)

    def test_a_wrong_field_is_named(self):
        with self.assertRaisesRegex(market.MarketError, "strike"):
            market.option(spot=60, t=1, vol=0.2)
        with self.assertRaisesRegex(market.MarketError, "splot"):
            market.option(splot=60, spot=1, strike=1, t=1, vol=0.2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
