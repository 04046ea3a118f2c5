"""Periods from 2 to 300 against TA-Lib itself, on prices that are hard to get right.
Usage: talib_test.py LIBRARY [TEST...]"""
import os, pathlib, sys, unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
if len(sys.argv) > 1:
    os.environ["SLUICE_LIBRARY"] = sys.argv[1]
try:
    import numpy as np, talib
except ImportError as e:
    print(f"SKIPPED: {e}; tests/requirements.txt lists what is needed")
    sys.exit(77)
import sluice.talib as ours

BARS = 800
EVERY = list(range(2, 301))
MANY = EVERY[:12] + EVERY[12::9]
TOLERANCE = 1e-9


def walk(source, start=100.0):
    return start * np.exp(np.cumsum(source.normal(0, 0.01, BARS)))


def price_kinds():
    source = np.random.default_rng(5)
    spikes, flat, late = walk(source), walk(source), walk(source)
    spikes[300] *= 1e4
    spikes[600] *= 1e-3
    flat[500:] = flat[500]
    late[:37] = np.nan
    return {"random": walk(source), "constant": np.full(BARS, 57.3),
            "rising": 100 + 0.37 * np.arange(BARS), "falling": 1000 - 0.37 * np.arange(BARS),
            "spikes": spikes, "tiny": walk(source, 1e-4), "huge": walk(source, 1e11),
            "flat at the end": flat, "late beginning": late}


def bars_of(close):
    source = np.random.default_rng(6)
    spread = np.abs(source.normal(0, 0.01, BARS)) * close
    before = np.r_[close[0], close[:-1]]
    return np.fmax(before, close) + spread, np.fmin(before, close) - spread, close


# What differences of prices are measured against: the prices, their squares, 100, or the
# values themselves.
PRICES = {"SMA", "EMA", "WMA", "BBANDS", "STDDEV", "MOM", "MACD", "MACDFIX"}
OF_CLOSE = {
    **{name: (lambda m, c, p, name=name: getattr(m, name)(c, p))
       for name in ("SMA", "EMA", "WMA", "RSI", "MOM", "ROC", "ROCP", "ROCR", "ROCR100", "MAX",
                    "MIN", "VAR", "STDDEV", "MACDFIX")},
    "BBANDS": lambda m, c, p: m.BBANDS(c, p, 2.0, 2.0),
    "BBANDS about an EMA": lambda m, c, p: m.BBANDS(c, p, 2.0, 1.5, 1),
    "BBANDS about a WMA": lambda m, c, p: m.BBANDS(c, p, 2.0, 1.5, 2),
    "MACD": lambda m, c, p: m.MACD(c, p, p + 7, 9),
}
OF_BARS = {
    **{name: (lambda m, h, l, c, p, name=name: getattr(m, name)(h, l, c, p))
       for name in ("ATR", "NATR", "ADX", "DX", "PLUS_DI", "MINUS_DI", "WILLR", "CCI")},
    "STOCH": lambda m, h, l, c, p: m.STOCH(h, l, c, p, 3, 0, 3, 0),
    "STOCH with an EMA and a WMA": lambda m, h, l, c, p: m.STOCH(h, l, c, p, 4, 1, 6, 2),
    "STOCHF": lambda m, h, l, c, p: m.STOCHF(h, l, c, p, 3, 0),
}


def scale_of(name, close):
    if name.split()[0] in PRICES:
        return np.nanmax(np.abs(close))
    if name == "VAR":
        return np.nanmax(np.abs(close)) ** 2
    return 100 if name in ("DX", "ADX") else 1e-300


class AllPeriods(unittest.TestCase):
    def compare(self, name, function, kind, arrays):
        scale = scale_of(name, arrays[-1])
        for period in EVERY if kind == "random" else MANY:
            made, expected = (function(module, *arrays, period) for module in (ours, talib))
            for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (made, expected)]):
                self.assertTrue(np.array_equal(np.isnan(a), np.isnan(b)), (name, kind, period))
                size = np.maximum(np.maximum(np.abs(a), np.abs(b)), scale)
                worst = np.nanmax(np.abs(a - b) / size, initial=0)
                self.assertLess(worst, TOLERANCE, (name, kind, period))

    def test_indicators_of_one_price_match(self):
        for kind, close in price_kinds().items():
            for name, function in OF_CLOSE.items():
                self.compare(name, function, kind, [close])

    def test_indicators_of_bars_match(self):
        for kind, close in price_kinds().items():
            for name, function in OF_BARS.items():
                self.compare(name, function, kind, bars_of(close))


    def test_the_scale_of_prices_changes_nothing(self):
        source = np.random.default_rng(7)
        narrow = 1.5 * np.exp(np.cumsum(source.normal(0, 0.0005, BARS)))
        narrow[400:450] = narrow[400]
        high = narrow * (1 + np.abs(source.normal(0, 0.0007, BARS)))
        low = narrow * (1 - np.abs(source.normal(0, 0.0007, BARS)))
        ratios = {name: OF_BARS[name] for name in
                  ("NATR", "ADX", "DX", "PLUS_DI", "MINUS_DI", "WILLR", "CCI", "STOCH", "STOCHF")}
        for scale in (1.0, 1e-6, 1e-10, 1e-14, 1e-18, 1e-100, 1e-290, 1e100):
            bars = [high * scale, low * scale, narrow * scale]
            for name, function in ratios.items():
                self.compare_at(name, function, bars, scale)
            for name in ("RSI", "ROC", "ROCP", "ROCR", "ROCR100"):
                self.compare_at(name, OF_CLOSE[name], bars[2:], scale)

    def compare_at(self, name, function, arrays, scale):
        for period in (2, 5, 14):
            made, expected = (function(module, *arrays, period) for module in (ours, talib))
            for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (made, expected)]):
                self.assertTrue(np.array_equal(np.isnan(a), np.isnan(b)), (name, scale, period))
                self.assertLess(np.nanmax(np.abs(a - b)), 1e-9 * 100, (name, scale, period))
                self.assertGreater(np.nanmax(np.abs(b)), 0, (name, scale))

    def test_differences_that_rounding_makes_are_nothing(self):
        for scale in (1.0, 1e-10, 1e-100, 1e100, 0.0):
            for ulps in (0, 1, 20, 60, 200, 1000) if scale else (0,):
                price = np.full(60, 3 * scale)
                price[1::2] += ulps * np.spacing(3 * scale)
                for name in ("STOCH", "STOCHF", "WILLR", "CCI"):
                    made, expected = (OF_BARS[name](m, price, price, price, 14)
                                      for m in (ours, talib))
                    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (made, expected)]):
                        self.assertTrue(np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True),
                                        (name, scale, ulps))

    def test_ranges_of_one_bar_match(self):
        bars = bars_of(walk(np.random.default_rng(8)))
        for name in ("ATR", "NATR", "PLUS_DI", "MINUS_DI"):
            made, expected = (OF_BARS[name](module, *bars, 1) for module in (ours, talib))
            self.assertTrue(np.allclose(made, expected, rtol=1e-9, atol=1e-12, equal_nan=True), name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
