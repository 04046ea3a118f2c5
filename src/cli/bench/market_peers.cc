#include "cli/bench/market_peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common/shell_quote.h"

namespace sluice::cli {

namespace {

// Prints a JSON object for each requested benchmark: kind of processor, name, peer, units
// a second. One core on the CPU; medians, as for our own benchmarks.
constexpr const char* kScript = R"py(
import json, statistics, sys, time
quick, requested = sys.argv[1] == "1", sys.argv[2:]

def is_selected(kind, *names):
    return any(kind + ":" + name in requested for name in names)

def report(kind, name, peer, work, run, sync=lambda: None):
    if is_selected(kind, name):
        rate = median_rate(work, run, sync)
        print(json.dumps({"kind": kind, "name": name, "peer": peer, "rate": rate}), flush=True)

def note(text):
    print(json.dumps({"note": text}), flush=True)

def median_rate(work, run, sync):  # the median, of several in a row where one is short
    run(); sync()
    start = time.perf_counter(); run(); sync()
    row = max(1, min(10000, int(0.002 / (time.perf_counter() - start))))
    times, spent = [], 0
    while len(times) < 3 or (spent < (0.1 if quick else 0.5) and len(times) < 200):
        start = time.perf_counter()
        for _ in range(row): run()
        sync()
        spent += time.perf_counter() - start
        times.append((time.perf_counter() - start) / row)
    return work / statistics.median(times)

def talib_peers():
    series = ("ema", "sma", "rsi", "bbands")
    cached, long = [n + "_cached" for n in series], ("ema_long", "rsi_long")
    if not is_selected("cpu", *series, *cached, *long): return
    import numpy, talib
    peer = "TA-Lib " + talib.__version__ + " on one core"
    random = numpy.random.default_rng()
    def prices(n):
        return 100 + 20 * numpy.sin(numpy.arange(n) / 300.0) + random.normal(size=n)
    calls = {"ema": lambda x: talib.EMA(x, 30), "sma": lambda x: talib.SMA(x, 30),
             "rsi": lambda x: talib.RSI(x, 14), "bbands": lambda x: talib.BBANDS(x, 20, 2, 2)}
    short, rows = prices(10000), [prices(10000) for _ in range(100 if quick else 1000)]
    for name, call in calls.items():
        report("cpu", name + "_cached", peer, len(short), lambda: call(short))
        report("cpu", name, peer, sum(map(len, rows)), lambda: [call(r) for r in rows])
    if not is_selected("cpu", *long): return
    one = prices(1_000_000 if quick else 100_000_000)
    for name in ("ema", "rsi"):
        report("cpu", name + "_long", peer, len(one), lambda: calls[name](one))

def quantlib_peers():
    if not is_selected("cpu", "black_scholes", "american_binomial", "american_standard"): return
    import QuantLib as ql
    peer = "QuantLib " + ql.__version__ + " on one core, through Python"
    today = ql.Date(15, 1, 2026); ql.Settings.instance().evaluationDate = today
    spot = ql.SimpleQuote(100.0)
    flat = lambda r: ql.YieldTermStructureHandle(ql.FlatForward(today, r, ql.Actual365Fixed()))
    vol = ql.BlackVolTermStructureHandle(
        ql.BlackConstantVol(today, ql.NullCalendar(), 0.25, ql.Actual365Fixed()))
    process = ql.BlackScholesMertonProcess(ql.QuoteHandle(spot), flat(0.01), flat(0.03), vol)
    end = today + 365
    def option(exercise, engine, kind=ql.Option.Put):
        made = ql.VanillaOption(ql.PlainVanillaPayoff(kind, 100.0), exercise)
        made.setPricingEngine(engine); return made
    pair = [option(ql.EuropeanExercise(end), ql.AnalyticEuropeanEngine(process), kind)
            for kind in (ql.Option.Call, ql.Option.Put)]
    american = ql.AmericanExercise(today, end)
    tree = option(american, ql.BinomialVanillaEngine(process, "crr", 1024))
    def price(options, count):
        for i in range(count):
            spot.setValue(90.0 + i % 20 + 0.01)
            for one in options: one.NPV()
    report("cpu", "black_scholes", peer, 2000, lambda: price(pair, 2000))
    report("cpu", "american_binomial", peer, 5, lambda: price([tree], 5))
    engine = getattr(ql, "QdFpAmericanEngine", None)
    if engine:
        point = option(american, engine(process, engine.accurateScheme()))
        report("cpu", "american_standard", peer, 200, lambda: price([point], 200))

def torch_peers():
    if not is_selected("gpu", "black_scholes", "asian", "sma", "covariance", "covariance_large"): return
    import torch
    if not torch.cuda.is_available(): return note("PyTorch sees no GPU")
    peer, sync = "PyTorch " + torch.__version__, torch.cuda.synchronize
    n = 1 << 24
    s, k, t = (torch.rand(n, dtype=torch.float64, device="cuda") + 0.5 for _ in range(3))
    def black_scholes():
        root = 0.25 * t.sqrt()
        d1 = ((s / k).log() + (0.02 + 0.03125) * t) / root
        cdf = torch.special.ndtr
        a, b = s * (-0.01 * t).exp(), k * (-0.03 * t).exp()
        call = a * cdf(d1) - b * cdf(d1 - root)
        return call, call - a + b
    report("gpu", "black_scholes", peer, n, black_scholes, sync)
    paths, steps = 1 << 20, 252
    def asian():
        log = torch.zeros(paths, device="cuda"); total = torch.zeros(paths, device="cuda")
        for _ in range(steps):
            log += torch.randn(paths, device="cuda").mul_(0.2 / steps ** 0.5).sub_(0.02 / steps)
            total += log.exp()
        return (100 * total / steps - 100).clamp_(min=0).mean()
    report("gpu", "asian", peer, paths * steps, asian, sync)
    # A recurrence has no operation in PyTorch: as a convolution, truncated at 10 periods.
    x = torch.rand(1000, 1, 10000, dtype=torch.float64, device="cuda")
    window = torch.ones(1, 1, 30, dtype=torch.float64, device="cuda") / 30
    report("gpu", "sma", peer, x.numel(), lambda: torch.nn.functional.conv1d(x, window), sync)
    for name, series, bars in (("covariance", 500, 1260), ("covariance_large", 4000, 2520)):
        r = torch.rand(series, bars, dtype=torch.float64, device="cuda")
        report("gpu", name, peer, series * (series + 1) * bars, lambda: torch.cov(r), sync)

print(json.dumps({"ran": True}), flush=True)
for peers in (talib_peers, quantlib_peers, torch_peers):
    try: peers()
    except ImportError as missing: note("not compared: " + str(missing))
    except Exception as problem: note(peers.__name__ + ": " + repr(problem))
)py";

struct RemoveFile {
  std::filesystem::path path;
  ~RemoveFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

// The output of the script for the benchmarks `requested`, such as "gpu:asian"; empty when `python`
// cannot be run.
std::string run_script(const std::string& python, bool quick, const std::string& requested) {
  const RemoveFile script{std::filesystem::temp_directory_path() /
                          fmt::format("sluice-peers-{}.py", getpid())};
  std::ofstream(script.path) << kScript;
  const std::string command =
      fmt::format("{} {} {}{} 2>/dev/null", shell_quote(python), shell_quote(script.path.string()),
                  quick ? 1 : 0, requested);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  char bytes[4096];
  while (const std::size_t n = std::fread(bytes, 1, sizeof bytes, pipe)) text.append(bytes, n);
  pclose(pipe);
  return text;
}

void add_peer(BenchReport& report, const nlohmann::json& result) {
  for (auto& subject : report.subjects)
    for (auto& row : subject.rows)
      if (result.at("kind") == subject.kind && result.at("name") == row.name) {
        row.peers.push_back({result.at("peer"), result.at("rate").get<double>()});
      }
}

}  // namespace

void add_market_peers(BenchReport& report, const std::string& python, bool quick) {
  if (python.empty()) return;
  std::string requested;
  for (const auto& subject : report.subjects)
    for (const auto& row : subject.rows)
      if (row.value) requested += " " + subject.kind + ":" + row.name;
  std::istringstream lines(run_script(python, quick, requested));
  bool any = requested.empty();
  for (std::string line; std::getline(lines, line);) {
    const auto result = nlohmann::json::parse(line, nullptr, false);
    if (result.is_discarded()) continue;
    any = true;
    if (result.contains("note"))
      report.notes.push_back("Peers: " + result["note"].get<std::string>());
    else if (result.contains("rate"))
      add_peer(report, result);
  }
  if (!any) report.notes.push_back("No library was compared: " + python + " cannot be run");
}

}  // namespace sluice::cli
