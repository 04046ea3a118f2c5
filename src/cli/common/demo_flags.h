// --demo and --demo-at, for commands that look once.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/common/checks.h"
#include "device/demo/demo.h"

namespace sluice::cli {

inline constexpr std::string_view kScenarioWanted = "a scenario such as gpu-falls-off, or a file";

struct DemoFlags {
  std::string scenario;  // empty: this machine
  double at_s = 0;       // into the story

  void add_to(CLI::App& app) {
    auto* demo =
        app.add_option("--demo", scenario, "use the GPUs of this demo scenario (a name or a file)")
            ->type_name("SCENARIO")
            ->check(not_empty(std::string(kScenarioWanted)));
    app.add_option("--demo-at", at_s, "so many seconds into the scenario")
        ->type_name("S")
        ->check(number_between(0, 1e6))
        ->needs(demo);
  }

  device::DemoOptions options() const {
    const auto began = Steady::now() - std::chrono::duration_cast<Steady::duration>(Seconds(at_s));
    device::DemoOptions demo;
    demo.epoch_ns = std::chrono::nanoseconds(began.time_since_epoch()).count();
    return demo;
  }
};

}  // namespace sluice::cli
