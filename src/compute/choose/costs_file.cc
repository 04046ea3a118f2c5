#include "compute/choose/costs_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/state_file.h"
#include "device/host/cpu.h"

namespace sluice::compute {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxBytes = 4 << 20;

}  // namespace

std::string machine_name(const std::string& gpu) {
  const device::Cpu cpu = device::detect_cpu();
  return fmt::format("{}, {} cores{}{}, Sluice " SLUICE_VERSION, cpu.model, cpu.usable_cores,
                     gpu.empty() ? "" : ", ", gpu);
}

Costs load_costs(const fs::path& file, const std::string& machine) {
  try {
    const auto text = read_state_file(file.string(), kMaxBytes);
    if (!text) return {};
    const auto json = nlohmann::json::parse(*text);
    if (json.at("machine") != machine) return {};
    return Costs::from_json(json.at("costs"));
  } catch (const std::exception& e) {
    log::warn("{} is left aside, costs are measured again: {}", file.string(), e.what());
    return {};
  }
}

void save_costs(const fs::path& file, const std::string& machine, const Costs& costs) {
  try {
    NewFile out(file);
    out.write(nlohmann::json{{"machine", machine}, {"costs", costs.to_json()}}.dump(1) + "\n");
    out.keep();
  } catch (const Error& error) {
    log::warn("measured costs were not kept: {}", error.reason());
  }
}

}  // namespace sluice::compute
