#include "compute/costs_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu.h"

namespace sluice::compute {

namespace fs = std::filesystem;

std::string machine_name(const std::string& gpu) {
  const device::Cpu cpu = device::detect_cpu();
  return fmt::format("{}, {} cores{}{}", cpu.model, cpu.usable_cores, gpu.empty() ? "" : ", ", gpu);
}

Costs load_costs(const fs::path& file, const std::string& machine) {
  std::ifstream in(file);
  if (!in) return {};
  try {
    const auto json = nlohmann::json::parse(in);
    if (json.at("machine") != machine) return {};
    return Costs::from_json(json.at("costs"));
  } catch (const std::exception& e) {
    log::warn("{} is left aside, costs are measured again: {}", file.string(), e.what());
    return {};
  }
}

void save_costs(const fs::path& file, const std::string& machine, const Costs& costs) {
  const fs::path temporary = fmt::format("{}.{}", file.string(), getpid());
  std::error_code problem;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), problem);
  {
    std::ofstream out(temporary);
    out << nlohmann::json{{"machine", machine}, {"costs", costs.to_json()}}.dump(1) << '\n';
    if (!out.flush()) problem = std::make_error_code(std::errc::io_error);
  }
  if (!problem) fs::rename(temporary, file, problem);
  if (!problem) return;
  log::warn("measured costs were not kept: {}: {}", file.string(), problem.message());
  fs::remove(temporary, problem);
}

}  // namespace sluice::compute
