// Settings of the [watch] section.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "watch/alert.h"

namespace sluice::watch {

// Returns why a webhook URL is invalid; "" when it is valid.
std::string webhook_cause(std::string_view text);

struct WatchConfig {
  double interval_s = 1;
  double slow_interval_s = 5;
  double process_interval_s = 10;
  double cost_budget = 0.001;
  bool history = true;
  std::string webhook;
  std::vector<Rule> rules = default_rules();  // [[alerts]] in the file; loaded apart

  static constexpr auto fields() {
    using C = WatchConfig;
    return std::tuple{
        Field{"interval_s", &C::interval_s, "seconds between samples of utilisation and memory"}
            .range(0.1, 60)
            .live(),
        Field{"slow_interval_s", &C::slow_interval_s,
              "seconds between samples of power, clocks, ECC"}
            .range(0.5, 600)
            .live(),
        Field{"process_interval_s", &C::process_interval_s, "seconds between process lists"}
            .range(1, 600)
            .live(),
        Field{"cost_budget", &C::cost_budget,
              "share of a core and of the driver lock the sampler may take; intervals grow to "
              "keep it"}
            .range(0.0001, 1)
            .live(),
        Field{"history", &C::history, "keep history in the state folder"},
        Field{"webhook", &C::webhook,
              "http(s) address that receives alerts as JSON; empty for none"}
            .live()
            .masked()
            .check(webhook_cause),
    };
  }
};

}  // namespace sluice::watch
