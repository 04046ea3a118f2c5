// sluice market montecarlo.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "cli/market/market_request.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kMonteCarloExamples =
    "  sluice market montecarlo --payoff asian --spot 100 --strike 100 --vol 0.2 --steps 12\n"
    "  sluice market montecarlo --payoff barrier --barrier down_and_out --level 90 --continuous\n"
    "  sluice market montecarlo --payoff european --sobol --steps 16 --paths 65536 --json\n"
    "  sluice market montecarlo --payoff basket --asset 100:0.2 --asset 95:0.3:0.01 "
    "--correlation 0.5\n"
    "  sluice market montecarlo --v0 0.04 --kappa 1.5 --theta 0.05 --sigma 0.5 --rho -0.7 "
    "--steps 200";

// Options that become a list or an object of the request.
struct MonteCarloParts {
  std::vector<std::string> assets;
  std::string correlation;
  Json heston = Json::object();
};

void add_payoff_flags(RequestFlags& f) {
  f.text("payoff",
         "european (default), asian, asian_price, asian_strike, barrier, lookback_fixed, "
         "lookback_floating, basket, best_of");
  f.text("kind", "call (default) or put");
  f.number("strike", "strike price (100)");
  f.text("barrier", "down_and_out (default), up_and_out, down_and_in, up_and_in");
  f.number("level", "price of the barrier");
  f.number("rebate", "paid when the barrier knocks the option out (0)");
  f.on("continuous", "monitor barrier and extreme continuously");
  f.number("extreme", "extreme price of a lookback before now");
  f.list("weights", "weights of a basket's assets (equal weights that sum to 1)");
}

void add_model_flags(CLI::App& app, RequestFlags& f, MonteCarloParts& parts) {
  f.number("spot", "price of the underlying (100)");
  f.number("t", "years to expiry (1)");
  f.number("rate", "interest a year, continuous (0)");
  f.number("div-yield", "dividends a year, continuous (0)");
  f.number("vol", "volatility a year (0.2)");
  f.number("steps", "steps of each path: fixings and barrier dates (1)");
  f.number("first", "when the first step ends, in years");
  app.add_option("--asset", parts.assets, "one of several; repeatable, instead of --spot")
      ->type_name("SPOT:VOL[:DIV_YIELD]");
  app.add_option("--correlation", parts.correlation,
                 "correlation of the assets: one number for all pairs, or rows as 1,0.5;0.5,1 (0)")
      ->type_name("N|N,N;N,N");
  RequestFlags heston(app, parts.heston);
  for (const char* name : {"v0", "kappa", "theta", "sigma", "rho"})
    heston.number(name, std::string("Heston's ") + name + "; any of them selects Heston's model");
}

void add_simulation_flags(RequestFlags& f) {
  f.number("paths", "number of paths, rounded up to a multiple of the block size (1048576)");
  f.number("seed", "seed of the random numbers (42)");
  f.on("sobol", "quasi-random numbers");
  f.off("no-antithetic", "antithetic", "without antithetic paths");
  f.off("no-control-variate", "control_variate", "without the control variate");
}

Json asset_from(const std::string& text) {
  const auto numbers = numbers_from(text, ':', "--asset");
  require(numbers.size() == 2 || numbers.size() == 3,
          "--asset " + text + ": expected SPOT:VOL or SPOT:VOL:DIV_YIELD");
  Json asset = {{"spot", numbers[0]}, {"vol", numbers[1]}};
  if (numbers.size() == 3) asset["div_yield"] = numbers[2];
  return asset;
}

Json correlation_from(const std::string& text, std::size_t assets) {
  Json rows = Json::array();
  if (text.find_first_of(",;") == std::string::npos) {
    const double all = numbers_from(text, ',', "--correlation")[0];
    for (std::size_t i = 0; i < assets; ++i) {
      rows.push_back(std::vector<double>(assets, all));
      rows[i][i] = 1.0;
    }
    return rows;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(';', at), text.size());
    rows.push_back(numbers_from(text.substr(at, end - at), ',', "--correlation"));
    at = end + 1;
  }
  return rows;
}

void join_parts(const MonteCarloParts& parts, Json& request) {
  if (!parts.assets.empty()) {
    request["assets"] = Json::array();
    for (const auto& text : parts.assets) request["assets"].push_back(asset_from(text));
  }
  if (!parts.correlation.empty()) {
    require(!parts.assets.empty(), "--correlation is for several --asset");
    request["correlation"] = correlation_from(parts.correlation, parts.assets.size());
  }
  if (!parts.heston.empty()) request["heston"] = parts.heston;
}

}  // namespace

int market_montecarlo(Args args, Io& io) {
  RequestCommand command("Prices of path-dependent options by simulation",
                         "sluice market montecarlo");
  MonteCarloParts parts;
  add_payoff_flags(command.flags);
  add_model_flags(command.app, command.flags, parts);
  add_simulation_flags(command.flags);
  if (!parse(command.app, args, io, kMonteCarloExamples)) return 0;
  join_parts(parts, command.request);
  const Json answer = command.ask("montecarlo", io);
  if (command.json) {
    io.out << in_utf8(answer) << '\n';
    return 0;
  }
  const Json& range = answer["confidence_95"];
  print_table(io.out, {answer.value("payoff", ""), answer.value("kind", "")},
              {{"price", shown(answer["price"])},
               {"standard error", shown(answer["standard_error"])},
               {"95 % lie within", shown(range[0]) + " .. " + shown(range[1])},
               {"paths", shown(answer["paths"])}});
  return 0;
}

}  // namespace sluice::cli
