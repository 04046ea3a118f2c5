// A short, repeatable run of market_fuzz.cc: requests and tables.
#include "smoke.h"

namespace {

const std::string kInputs[] = {
    "date,close,\"a,b\"\n2020-01-01,1,2\n2020-01-02,,3\n",
    "d;x\r\n1;1e308\r\n2;nan\r\n",
    R"({"close": [1, 2, 4, null, 8, 3, 2], "timeperiod": 2, "device": "cpu", "explain": true})",
    R"({"high": [[2, 3], [4, 5]], "low": [[1, 2], [3, 4]], "close": [[1, 3], [4, 4]]})",
    R"({"series": {"A": [1, 2, 3], "B": {"close": [1, 2]}}, "timeperiod": 2})",
    R"({"model": "binomial", "spot": [100, 90], "strike": 95, "t": 0.5, "rate": 0.01,
        "vol": 0.2, "kind": ["put", "call"], "steps": 64, "exercise": "european"})",
    R"({"model": "american", "spot": 100, "strike": 95, "t": 0.5, "vol": 0.2, "kind": "put"})",
    R"({"model": "implied", "price": 7, "spot": 100, "strike": 95, "t": 0.5})",
    R"({"model": "heston", "spot": 100, "strike": 95, "t": 0.5, "v0": 0.04, "rho": -0.5})",
    R"({"prices": {"A": [1, 2, 1, 3], "B": [3, 2, 3, 4]}, "benchmark": [1, 2, 3, 4],
        "cutoff": 0.1, "covariance": "ledoit_wolf"})",
    R"({"prices": {"A": [1, 2, 1, 3], "B": [3, 2, 3, 4]}, "goal": "min_cvar", "upper": 0.9,
        "sectors": [{"name": "s", "assets": ["A", 1], "min": 0.1, "max": 1}]})",
    R"({"mean": [0.1, 0.2], "covariance": [[0.04, 0.01], [0.01, 0.09]], "goal": "frontier",
        "points": 3, "held": [0.5, 0.5], "turnover": 1, "leverage": 2, "lower": [-1, 0]})",
    R"({"returns": [[0.01, -0.02, 0.03, 0.01], [0.02, 0.01, -0.01, 0.02]], "goal": "min_cvar",
        "mean": [0.1, 0.2], "lower": [0, 0], "upper": [1, 1], "held": [0.5, 0.5],
        "turnover": 1})",
    R"({"returns": [[0.01, -0.02, 0.03], [0.02, 0.01, -0.01]], "goal": "risk_parity",
        "shares": [1, 2], "periods_per_year": 252, "covariance": "ewma", "span": 2})",
    R"({"returns": [[0.01, -0.02, 0.03]], "simulate": true, "paths": 64, "horizon": 2,
        "benchmark": [0.1, 0.2, 0.1], "convention": "quantlib", "ddof": 0})",
    R"({"covariance": [[0.04, 0.01], [0.01, 0.09]], "names": ["A", "B"], "mean": [0.1, 0.2],
        "goal": "target_risk", "value": 0.25, "sum": 1, "l2": 0.1})",
    R"({"prices": {"A": {"close": [1, 2, 3, 2], "open": [1, 1, 2, 2], "high": [2, 2, 3, 3],
        "low": [1, 1, 2, 2], "dates": ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-06"]},
        "B": [3, 2, 3, 4]}, "strategy": "rsi", "parameters": {"period": 2}, "ticker": "B"})",
    R"({"payoff": "barrier", "barrier": "up_and_out", "level": 120, "steps": 4, "paths": 64,
        "sobol": true, "continuous": true, "heston": {"v0": 0.04}})",
    R"({"payoff": "basket", "assets": [{"spot": 1}, {"spot": 2, "vol": 0.1}], "weights": [1, 2],
        "correlation": [[1, 0.5], [0.5, 1]], "paths": 64, "strike": 3})",
    R"({"close": [10, 11, 12, 11, 10, 9, 10, 12], "strategy": "sma_cross", "metric": "cagr",
        "parameters": {"fast": "1:2", "slow": [3, 4]}, "trading": {"sides": "both",
        "stop_loss": 0.1}, "walk_forward": {"in_sample": 4, "out_of_sample": 2}, "html": true})",
};
constexpr std::string_view kValues[] = {
    "-1",    "1e999", "0",   "null",   "\"8\"", "[[[[", "true",       "{}",
    "1e308", "NaN",   "1e9", "1e-320", "-0.0",  "[]",   "2147483648", "18446744073709551616"};

}  // namespace

int main() {
  return sluice::fuzz::run("market_fuzz_smoke", kInputs,
                           {.variants = 1500,
                            .alphabet = "{}[]\",:\\u0eE+-.\t\n\x7f\xff\xc3",
                            .fragments = {std::begin(kValues), std::end(kValues)},
                            .edits = 3,
                            .runs = 1});
}
