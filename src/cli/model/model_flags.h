// Where a model runs: flags that several commands share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "engine/session/session.h"

namespace sluice::cli {

struct DeviceFlags {
  std::string device = "cpu", precision = "fp32";
  bool skip_padding = false;
  std::optional<double> max_loss{};
};
void add_options(CLI::App& app, DeviceFlags& flags);  // --device, --precision, --max-loss
void add_max_loss(CLI::App& app, std::optional<double>& max_loss);
void add_skip_padding(CLI::App& app, bool& flag);  // --skip-padding

// What a session needs to run there.
struct OnDevice {
  engine::SessionOptions session;
  std::string precision;  // the one that "auto" chose
  bool chosen = false;    // by "auto"
  double seconds = 0;     // that the GPU took to start
};
// Throws unavailable where the build or machine lacks the device or the device the precision.
OnDevice on_device(const DeviceFlags& flags, const std::vector<std::string>& library_dirs);

// How what was compiled came to its precision, where f16 or bf16 was wanted.
struct PrecisionSeen {
  std::string name;  // the one it runs in
  std::optional<engine::PrecisionReport> report{};
};
// Throws unavailable, naming nodes, where the precision that the user asked for loses too much;
// one that "auto" chose is fp32 then.
PrecisionSeen precision_seen(const OnDevice& on, const engine::Session::Compiled& compiled);
// "Precision: fp16, ...", with an end of line; empty where there is nothing to say.
std::string precision_text(const PrecisionSeen& seen);
nlohmann::ordered_json precision_json(const PrecisionSeen& seen);

}  // namespace sluice::cli
