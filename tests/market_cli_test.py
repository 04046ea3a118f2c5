"""The market commands from outside: tables in, tables out, and errors that say where.
Usage: market_cli_test.py SLUICE [TEST...]"""
import csv, io, json, math, os, pathlib, random, subprocess, sys, tempfile, unittest

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/sluice"
DATA = pathlib.Path(os.environ.get(
    "SLUICE_TEST_DATA", pathlib.Path(__file__).resolve().parents[2] / "shared" / "data")) / "market"


def sluice(*arguments, text="", environment=None):
    with tempfile.TemporaryDirectory() as home:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True,
                              timeout=60, env={**clean, "HOME": home, "XDG_CACHE_HOME": home,
                                               **(environment or {})})


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def walk(bars, seed=1):
    source, price, prices = random.Random(seed), 100.0, []
    for _ in range(bars):
        price *= math.exp(source.gauss(0.0003, 0.01))
        prices.append(price)
    return prices


def day(i):
    return f"{2000 + i // 336}-{i // 28 % 12 + 1:02d}-{i % 28 + 1:02d}"


def table(bars, *names, seed=1):
    columns = [walk(bars, seed + i) for i in range(len(names))]
    return "date," + ",".join(names) + "\n" + "".join(
        f"{day(t)}," + ",".join(repr(c[t]) for c in columns) + "\n" for t in range(bars))


# Names that would control a terminal, and how a table shows them.
EVIL = {"\x1b[31mRED\x1b]0;title\x07": "\\x1b[31mRED\\x1b]0;title\\x07",
        "\x9b31m": "\\xc2\\x9b31m", "exe.\u202egnp": "exe.\\xe2\\x80\\xaegnp"}


class Case(unittest.TestCase):
    def plain(self, text):
        for character in text:
            self.assertTrue(character == "\n" or character.isprintable(), repr(text))

    def done(self, *arguments, **more):
        ran = sluice(*arguments, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def refused(self, code, *arguments, **more):
        ran = sluice(*arguments, **more)
        self.assertEqual(ran.returncode, code, (ran.stdout, ran.stderr))
        self.assertEqual(ran.stdout, "")
        return ran.stderr


class Indicators(Case):
    PRICES = "day,close\na,1\nb,2\nc,4\nd,8\n"

    def test_the_first_column_stays_and_the_warm_up_is_empty(self):
        got = self.done("market", "sma", "--period", "2", text=self.PRICES)
        self.assertEqual(got, "day,SMA\na,\nb,1.5\nc,3\nd,6\n")

    def test_digits_read_back_as_the_same_number(self):
        got = rows(self.done("market", "ema", "--period", "2", text="d,close\n1,0.1\n2,0.2\n3,0.7\n"))
        self.assertEqual(got[0], ["d", "EMA"])
        seed = (0.1 + 0.2) / 2
        self.assertAlmostEqual(float(got[3][1]), seed + (0.7 - seed) * 2 / 3, delta=1e-16)

    def test_outputs_have_their_names(self):
        got = rows(self.done("market", "macd", text=table(60, "close")))
        self.assertEqual(got[0], ["date", "macd", "macdsignal", "macdhist"])
        self.assertEqual([len(r) for r in got], [4] * 61)
        self.assertEqual(got[33][1:], ["", "", ""])
        self.assertTrue(all(got[34][1:]))

    def test_each_owner_has_a_separate_series(self):
        text = "date,ticker,close\n1,A,1\n1,B,10\n2,A,3\n2,B,30\n3,B,50\n"
        got = self.done("market", "sma", "--period", "2", "--by", "ticker", text=text)
        self.assertEqual(got, "date,ticker,SMA\n1,A,\n1,B,\n2,A,2\n2,B,20\n3,B,40\n")

    def test_json_has_null_in_the_warm_up(self):
        got = json.loads(self.done("market", "rsi", "--period", "2", "--json", text=self.PRICES))
        self.assertEqual(got["outputs"]["RSI"], [None, None, 100, 100])
        self.assertEqual(got["day"], ["a", "b", "c", "d"])

    def test_another_column_can_be_named(self):
        text = "day,open,price\na,1,5\nb,3,6\n"
        self.assertEqual(self.done("market", "mom", "--column", "open", "--period", "1", text=text),
                         "day,MOM\na,\nb,2\n")
        self.assertEqual(self.done("market", "trange", "--columns", "high=H", "low=L", text=
                                   "day,H,L,close\na,2,1,1\nb,5,3,4\n"), "day,TRANGE\na,\nb,4\n")

    def test_golden_vectors(self):
        golden = DATA / "talib_0.8.1_sref252.csv"
        if not golden.exists():
            self.skipTest(f"no {golden}")
        known = rows(golden.read_text())
        at = {name: i for i, name in enumerate(known[0])}
        for command, columns in {
                ("rsi", "--period", "14"): ["RSI_14"], ("ema", "--period", "26"): ["EMA_26"],
                ("sma",): ["SMA_30"], ("atr",): ["ATR_14"], ("adx",): ["ADX_14"],
                ("cci",): ["CCI_14"], ("willr",): ["WILLR_14"], ("obv",): ["OBV"],
                ("bbands", "--timeperiod", "20"): ["BB20_U", "BB20_M", "BB20_L"],
                ("macd",): ["MACD", "MACDSIG", "MACDHIST"],
                ("stoch",): ["STOCH5_K", "STOCH5_D"]}.items():
            got = rows(self.done("market", *command, "--in", str(golden)))
            for i, column in enumerate(columns):
                for bar, (ours, theirs) in enumerate(zip(got[1:], known[1:])):
                    mine, expected = ours[i + 1], float(theirs[at[column]])
                    if math.isnan(expected):
                        self.assertEqual(mine, "", (command, bar))
                    else:
                        self.assertAlmostEqual(float(mine), expected, msg=(command, bar),
                                               delta=1e-9 * max(1, abs(expected)))


class Mistakes(Case):
    def test_a_field_that_is_no_number_is_named_by_line_and_column(self):
        said = self.refused(2, "market", "rsi", text="day,close\na,1\nb,x\n")
        self.assertIn(":3:", said)
        self.assertIn("close", said)
        self.assertIn("x", said)

    def test_a_ragged_row_is_named(self):
        self.assertIn(":3:", self.refused(2, "market", "rsi", text="day,close\na,1\nb\n"))

    def test_a_missing_column_names_those_there_are(self):
        said = self.refused(2, "market", "rsi", "--column", "clse", text="day,close\na,1\n")
        self.assertIn("clse", said)
        self.assertIn("close", said)

    def test_an_empty_file_and_a_header_alone(self):
        self.refused(2, "market", "rsi", text="")
        self.assertEqual(self.done("market", "rsi", text="day,close\n"), "day,RSI\n")

    def test_values_out_of_range(self):
        self.assertIn("timeperiod", self.refused(2, "market", "rsi", "--period", "1",
                                                 text="day,close\na,1\n"))
        self.assertIn("auto, cpu or gpu", self.refused(2, "market", "rsi", "--device", "tpu"))

    def test_an_unknown_indicator_names_those_there_are(self):
        said = self.refused(1, "market", "rsy")
        self.assertIn("did you mean 'rsi'", said)
        self.assertIn("bbands", said)
        self.assertIn("did you mean 'portfolio'", self.refused(1, "market", "portfolo"))

    def test_a_folder_is_no_table(self):
        said = self.refused(1, "market", "rsi", "--in", "/tmp")
        self.assertIn("/tmp", said)
        self.assertNotIn("filebuf", said)

    def test_rows_that_go_back_in_time_are_refused_by_line(self):
        newest = "date,close\n2020-01-03,3\n2020-01-02,2\n2020-01-01,1\n"
        for command in (["market", "sma"], ["market", "risk"], ["market", "portfolio"], ["backtest"]):
            said = self.refused(2, *command, text=newest)
            self.assertIn("stdin:3:", said)
            self.assertIn("oldest", said)
        two = "date,ticker,close\n2020-01-01,A,1\n2020-01-02,A,2\n2020-01-01,B,1\n2020-01-02,B,2\n"
        self.assertIn("--by", self.refused(2, "market", "sma", text=two))
        self.done("market", "sma", "--by", "ticker", text=two)
        self.done("market", "risk", "--by", "ticker", text=two)
        mixed = "date,ticker,close\n2020-01-01,A,1\n2020-01-01,B,2\n"
        self.assertIn("twice", sluice("market", "sma", text=mixed).stderr)

    def test_any_bytes_and_names_can_be_written_as_json(self):
        for header in (b"outputs", b"indicator", b"d\xff"):
            text = header + b",close\n1\xfe,10\n2,11\n"
            for command in (["market", "sma", "--period", "1"], ["market", "risk"], ["backtest"]):
                with tempfile.NamedTemporaryFile(suffix=".csv") as file:
                    file.write(text.replace(b"close", b"close" if command[-1] != "risk" else b"c\xff"))
                    file.flush()
                    got = json.loads(self.done(*command, "--json", "--in", file.name))
                if "sma" in command:
                    self.assertEqual(got["outputs"]["SMA"], [10, 11])
                    self.assertEqual(got["indicator"], "SMA")

    def test_a_file_that_is_not_there(self):
        self.assertIn("/nowhere.csv", self.refused(1, "market", "rsi", "--in", "/nowhere.csv"))

    def test_a_gpu_that_is_turned_off(self):
        said = self.refused(1, "market", "rsi", "--device", "gpu", text="d,close\n1,1\n",
                            environment={"GPU_ENABLED": "false"})
        self.assertIn("GPU_ENABLED", said)

    def test_extreme_numbers_and_nan_do_no_harm(self):
        for cell in ("1e308", "-1e308", "nan", "inf", "", "1e-320"):
            text = "day,close\n" + "".join(f"{i},{cell if i % 3 else '1'}\n" for i in range(50))
            for name in ("rsi", "bbands", "ema"):
                ran = sluice("market", name, text=text)
                self.assertIn(ran.returncode, (0, 2), ran.stderr)


class Help(Case):
    def test_every_command_shows_an_example(self):
        for command in (["market", "rsi"], ["market", "option"], ["market", "risk"],
                        ["market", "portfolio"], ["market", "montecarlo"], ["backtest"]):
            self.assertIn("sluice " + " ".join(command) + " --",
                          self.done(*command, "--help").split("Examples:")[1])

    def test_the_list_has_every_indicator(self):
        listed = self.done("market")
        for name in ("rsi", "bbands", "vwap", "swing_signal", "mean_reversion_signal", "portfolio",
                     "montecarlo"):
            self.assertRegex(listed, rf"(?m)^  {name} ")


class Others(Case):
    def test_an_option_and_its_greeks(self):
        got = json.loads(self.done("market", "option", "--spot", "60", "--strike", "65", "--t", "0.25",
                                   "--rate", "0.08", "--vol", "0.3", "--json"))
        self.assertAlmostEqual(got["price"], 2.1334, delta=1e-4)
        self.assertGreater(got["gamma"], 0)
        back = json.loads(self.done("market", "option", "--model", "implied", "--price",
                                    repr(got["price"]), "--spot", "60", "--strike", "65", "--t",
                                    "0.25", "--rate", "0.08", "--json"))
        self.assertAlmostEqual(back["vol"], 0.3, delta=1e-9)

    def test_options_of_a_table(self):
        text = "id,kind,spot,strike,t,vol\nx,call,100,100,1,0.2\ny,put,100,100,1,0.2\n"
        got = rows(self.done("market", "option", "--in", "-", "--model", "american", text=text))
        self.assertEqual([r[0] for r in got], ["id", "x", "y"])
        self.assertAlmostEqual(float(got[1][1]), 7.965567455405804, delta=1e-6)
        self.assertIn(":2:", self.refused(2, "market", "option", "--in", "-",
                                          text="id,kind,spot\nx,cal,1\n"))

    def test_a_table_of_quotes_may_have_both_volatility_and_price(self):
        text = "id,spot,strike,t,vol,price\nx,100,100,1,0.2,7.965567455405804\n"
        implied = rows(self.done("market", "option", "--model", "implied", "--in", "-", text=text))
        self.assertAlmostEqual(float(dict(zip(*implied))["vol"]), 0.2, delta=1e-12)
        priced = rows(self.done("market", "option", "--in", "-", text=text))
        self.assertAlmostEqual(float(dict(zip(*priced))["price"]), 7.965567455405804, delta=1e-12)

    def test_a_price_that_there_is_not_says_why(self):
        got = self.done("market", "option", "--model", "american", "--spot", "100", "--strike", "100",
                        "--t", "1", "--vol", "0.2", "--rate", "-0.05")
        self.assertIn("binomial", got)

    def test_published_option_values(self):
        reference = DATA / "option_reference.csv"
        if not reference.exists():
            self.skipTest(f"no {reference}")
        known = [r for r in csv.DictReader(io.StringIO(reference.read_text()))
                 if r["product"] == "vanilla" and r["quantity"] == "price"
                 and r["method"] == "black_scholes_merton"]
        text = "id,kind,spot,strike,t,rate,div_yield,vol\n" + "".join(
            ",".join((r["id"], r["option_type"], r["spot"], r["strike"], r["t_used"], r["rate"],
                      r["div_yield"], r["vol"])) + "\n" for r in known)
        got = rows(self.done("market", "option", "--in", "-", text=text))
        for ours, theirs in zip(got[1:], known):
            self.assertAlmostEqual(float(ours[1]), float(theirs["expected"]),
                                   delta=float(theirs["tol"]), msg=theirs["id"])
        self.assertGreater(len(known), 10)

    def test_a_simulation_repeats_and_reports_its_error(self):
        ask = ("market", "montecarlo", "--payoff", "asian", "--steps", "12", "--paths", "65536",
               "--json")
        first, second = json.loads(self.done(*ask)), json.loads(self.done(*ask))
        self.assertEqual(first, second)
        self.assertGreater(first["standard_error"], 0)
        self.assertLess(first["standard_error"], 0.01)
        self.assertIn("standard error", self.done(*ask[:-1]))

    def test_several_assets_and_stochastic_volatility(self):
        ask = ("market", "montecarlo", "--json", "--paths", "65536")
        one = json.loads(self.done(*ask, "--payoff", "basket", "--asset", "100:0.2", "--asset",
                                   "100:0.2", "--correlation", "0.999999"))
        self.assertAlmostEqual(one["price"], 7.9656, delta=4 * one["standard_error"] + 0.01)
        rows_given = json.loads(self.done(*ask, "--payoff", "basket", "--asset", "100:0.2", "--asset",
                                          "100:0.2", "--correlation", "1,0.999999;0.999999,1"))
        self.assertEqual(rows_given, one)
        heston = json.loads(self.done(*ask, "--steps", "100", "--v0", "0.04", "--sigma", "0.3"))
        exact = json.loads(self.done("market", "option", "--json", "--model", "heston", "--spot", "100",
                                     "--strike", "100", "--t", "1", "--sigma", "0.3"))
        self.assertAlmostEqual(heston["price"], exact["price"], delta=0.1)
        self.assertIn("SPOT:VOL", self.refused(2, *ask, "--asset", "100"))
        self.assertIn("--asset", self.refused(2, *ask, "--correlation", "0.5"))

    def test_a_requested_covariance_is_shown(self):
        got = self.done("market", "risk", "--covariance", "sample", text=table(99, "A", "B"))
        self.assertRegex(got, r"(?m)^covariance +A +B\nA +\S+ +\S+\nB +\S+ +\S+")

    def test_the_only_series_is_no_benchmark(self):
        self.assertIn("only series", self.refused(2, "market", "risk", "--benchmark", "A",
                                                  text=table(9, "A")))

    def test_risk_of_one_series_and_of_many(self):
        text = "date,A,B\n1,100,50\n2,110,50\n3,99,55\n4,121,44\n"
        got = json.loads(self.done("market", "risk", "--json", text=text))["series"]
        self.assertAlmostEqual(got["A"]["total_return"], 0.21, delta=1e-12)
        self.assertAlmostEqual(got["A"]["max_drawdown"], -0.1, delta=1e-12)
        self.assertAlmostEqual(got["B"]["max_drawdown"], 44 / 55 - 1, delta=1e-12)
        self.assertIn("Sharpe", self.done("market", "risk", text=text))
        with_beta = json.loads(self.done("market", "risk", "--json", "--benchmark", "B", text=text))
        self.assertIsNotNone(with_beta["series"]["A"]["beta"])
        long = "date,ticker,close\n" + "".join(
            f"{r[0]},{t},{r[i]}\n" for i, t in ((1, "A"), (2, "B")) for r in rows(text)[1:])
        again = json.loads(self.done("market", "risk", "--json", "--by", "ticker", text=long))
        self.assertEqual(again["series"], got)

    def test_a_table_that_series_without_common_dates_make_too_large_is_refused(self):
        count = 30000  # 1 MB that would become 14 GB
        text = "d,t,close\n" + "".join(f"{2 * i + j},t{i},1\n" for i in range(count) for j in (0, 1))
        error = self.refused(2, "market", "risk", "--by", "t", text=text)
        self.assertIn("30000 series and 60000 dates", error)

    def test_a_portfolio_keeps_its_limits(self):
        got = json.loads(self.done("market", "portfolio", "--goal", "min_volatility", "--upper",
                                   "0.4", "--json", text=table(300, "A", "B", "C", "D")))
        weights = got["weights"].values()
        self.assertAlmostEqual(sum(weights), 1, delta=1e-9)
        self.assertLessEqual(max(weights), 0.4 + 1e-9)
        self.assertIn("share of risk", self.done("market", "portfolio", text=table(300, "A", "B")))
        said = self.refused(2, "market", "portfolio", "--upper", "0.2", text=table(99, "A", "B"))
        self.assertIn("sum to 1", said)

    def test_sectors_and_shares_of_risk(self):
        text = table(300, "A", "B", "C", "D")
        ask = ("market", "portfolio", "--goal", "min_volatility", "--json")
        weights = json.loads(self.done(*ask, "--sector", "tech:A,B::0.1", "--sector", "banks:C:0.6:",
                                       text=text))["weights"]
        self.assertAlmostEqual(weights["A"] + weights["B"], 0.1, delta=1e-9)
        self.assertAlmostEqual(weights["C"], 0.6, delta=1e-9)
        self.assertIn("NAME:ASSET", self.refused(2, *ask, "--sector", "tech:A:0.1", text=text))
        self.assertIn("sectors[0].assets", self.refused(2, *ask, "--sector", "x:Z:0:1", text=text))
        shares = json.loads(self.done("market", "portfolio", "--goal", "risk_parity", "--shares",
                                      "1,2,3,4", "--json", text=text))["risk_shares"]
        self.assertAlmostEqual(shares["D"], 0.4, delta=1e-9)


class Names(Case):
    LONG = "date,ticker,close\n" + "".join(
        f"{day(t)},{name},{price}\n" for t in range(80)
        for name, price in zip([*EVIL, "plain"], (100 + t % 7, 90 + t % 5, 80 + t % 3, 70 + t % 4)))
    WIDE = table(80, *EVIL, "plain")

    def test_tables_show_what_names_would_do_to_a_terminal(self):
        for ask, text in ((("market", "risk"), self.WIDE), (("market", "portfolio"), self.WIDE),
                          (("market", "risk", "--covariance", "sample"), self.WIDE),
                          (("market", "portfolio", "--goal", "risk_parity"), self.WIDE),
                          (("market", "portfolio", "--goal", "frontier"), self.WIDE),
                          (("market", "risk", "--by", "ticker"), self.LONG),
                          (("backtest", "--by", "ticker"), self.LONG),
                          (("backtest", "--by", "ticker", "--fast", "3:5:1"), self.LONG)):
            got = self.done(*ask, text=text)
            self.plain(got)
            for shown in EVIL.values():  # portfolios name some assets only
                self.assertTrue(shown in got or ask[1] == "portfolio" and ask[-1] != "risk_parity", ask)

    def test_json_escapes_them(self):
        for ask, text in ((("market", "risk"), self.WIDE), (("backtest", "--by", "ticker"), self.LONG)):
            got = self.done(*ask, "--json", text=text)
            self.plain(got)
            for name in EVIL:
                self.assertIn(json.dumps(name), got)

    def test_errors_show_them(self):
        twice = self.LONG + "".join(self.LONG.splitlines(True)[-4:])
        for ask, text in ((("market", "risk", "--benchmark", "x"), self.WIDE),
                          (("market", "risk", "--column", "x"), self.WIDE),
                          (("market", "risk", "--by", "ticker"), twice)):
            said = self.refused(2, *ask, text=text)
            self.plain(said)
            self.assertIn(EVIL["\x1b[31mRED\x1b]0;title\x07"], said)

    def test_a_table_of_very_many_columns_is_read_in_linear_time(self):
        names = [f"c{i}" for i in range(20000)]
        text = "date," + ",".join(names) + "\n" + "".join(
            f"{day(t)}," + ",".join(str(100 + (t * i) % 7) for i in range(20000)) + "\n"
            for t in range(3))
        before = os.times()
        self.done("market", "risk", "--json", text=text)
        spent = os.times()
        self.assertLess(spent.children_user - before.children_user, 8)


class Backtests(Case):
    def test_a_table_json_and_a_page(self):
        text = table(400, "close")
        self.assertIn("Sharpe", self.done("backtest", text=text).replace("sharpe", "Sharpe"))
        got = json.loads(self.done("backtest", "--json", text=text))
        self.assertEqual(got["backtest"]["parameters"], {"fast": 20, "slow": 50})
        self.assertEqual(len(got["backtest"]["equity"]), 400)
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            self.done("backtest", "--fast", "5:15:5", "--slow", "20,40", "--html", page, text=text)
            html = pathlib.Path(page).read_text()
        self.assertIn("<svg", html)
        self.assertNotIn("http://", html.replace("http://www.w3.org", ""))

    def test_a_sweep_reports_the_deflated_sharpe_ratio_and_walks_forward(self):
        got = json.loads(self.done("backtest", "--fast", "5:15:5", "--slow", "20:40:10", "--json",
                                   "--walk-forward", "--in-sample", "200", "--out-of-sample", "50",
                                   text=table(500, "close")))
        self.assertEqual(got["sweep"]["trials"], 9)
        self.assertEqual(got["deflated_sharpe"]["trials"], 9)
        self.assertGreater(len(got["walk_forward"]["windows"]), 3)

    def test_bars_within_a_day(self):
        text = "time,close\n" + "".join(f"2020-01-{d:02d}T{h:02d}:00,{100 + d * h % 17}\n"
                                        for d in range(1, 20) for h in range(9, 17))
        got = json.loads(self.done("backtest", "--fast", "3", "--slow", "8", "--json", text=text))
        self.assertEqual(got["backtest"]["dates"][0], "2020-01-01")
        self.assertGreater(got["backtest"]["metrics"]["trades"], 0)
        for style in ("20200102", "2020/01/02"):
            got = json.loads(self.done("backtest", "--json",
                                       text=f"date,close\n{style},1\n{style[:-1]}3,2\n"))
            self.assertEqual(got["backtest"]["dates"], ["2020-01-02", "2020-01-03"])

    def test_bad_bars_are_named_by_line_and_column(self):
        head = "date,open,high,low,close\n2020-01-02,10,11,9,10\n"
        for bar, word in (("2020-01-03,,11,9,10", "open"), ("2020-01-03,10,8,9,10", "high"),
                          ("2020-01-03,10,11,-1,10", "low"), ("2020-01-03,10,11,9,inf", "close"),
                          ("2020-01-02,10,11,9,10", "2020-01-02"), ("2020-01-32,1,1,1,1", "date")):
            said = self.refused(2, "backtest", text=head + bar + "\n")
            self.assertIn("stdin:3:", said)
            self.assertIn(word, said)

    def test_mistakes_name_the_flag(self):
        text = table(100, "close")
        self.assertIn("width", self.refused(2, "backtest", "--width", "2", text=text))
        self.assertIn("strategy", self.refused(2, "backtest", "--strategy", "unknown", text=text))
        self.assertIn(":3:", self.refused(2, "backtest", text="d,close\n1,2\n2,-1\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
