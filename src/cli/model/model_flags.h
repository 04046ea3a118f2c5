// Flags for the device and precision of a model, shared by several commands.
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

// The options of a session on that device.
struct OnDevice {
  engine::SessionOptions session;
  std::string precision;  // the one that "auto" chose
  bool chosen = false;    // by "auto"
  double seconds = 0;     // that the GPU took to start
};
// Throws unavailable where the build or machine lacks the device or the device the precision.
OnDevice on_device(const DeviceFlags& flags, const std::vector<std::string>& library_dirs);

// The precision of a compiled model, and its report where f16 or bf16 was requested.
struct PrecisionResult {
  std::string name;  // the one it runs in
  std::optional<engine::PrecisionReport> report{};
};
// Throws unavailable, naming nodes, where the requested precision loses too much;
// one that "auto" chose is fp32 then.
PrecisionResult precision_result(const OnDevice& on, const engine::Session::Compiled& compiled);
// "Precision: fp16, ...", with an end of line; empty where there is nothing to say.
std::string precision_text(const PrecisionResult& seen);
nlohmann::ordered_json precision_json(const PrecisionResult& seen);

}  // namespace sluice::cli
