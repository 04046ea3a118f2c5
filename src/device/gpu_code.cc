#include "device/gpu_code.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace sluice::device {

namespace {

int newest_machine_code(const GpuCode& code, int capability) noexcept {
  int best = 0;
  for (const int built : code.machine)
    if (built / 10 == capability / 10 && built <= capability) best = std::max(best, built);
  return best;
}

int newest_ptx(const GpuCode& code, int capability) noexcept {
  int best = 0;
  for (const int built : code.ptx)
    if (built <= capability) best = std::max(best, built);
  return best;
}

std::string versions(const std::vector<int>& capabilities) {
  std::string all;
  for (const int c : capabilities)
    all += fmt::format("{}{}.{}", all.empty() ? "" : ", ", c / 10, c % 10);
  return all;
}

}  // namespace

// CMake defines both for this file: see cmake/CudaArchs.cmake. Empty and 0 without CUDA.
const GpuCode& gpu_code() {
  static const GpuCode code = parse_gpu_code(SLUICE_CUDA_CODE, SLUICE_CUDA_TOOLKIT);
  return code;
}

GpuCode parse_gpu_code(std::string_view text, int toolkit) {
  constexpr std::string_view kPtx = "ptx";
  GpuCode code;
  code.toolkit = toolkit;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool is_ptx = word.starts_with(kPtx);
    (is_ptx ? code.ptx : code.machine).push_back(std::stoi(word.substr(is_ptx ? kPtx.size() : 0)));
  }
  return code;
}

int code_for(const GpuCode& code, int capability) noexcept {
  const int machine = newest_machine_code(code, capability);
  return machine != 0 ? machine : newest_ptx(code, capability);
}

bool needs_jit(const GpuCode& code, int capability) noexcept {
  return newest_machine_code(code, capability) == 0 && newest_ptx(code, capability) != 0;
}

int require_code_for(int capability) {
  const int code = code_for(gpu_code(), capability);
  if (code == 0)
    throw Error(Code::unavailable,
                fmt::format("this binary has code for {}, and none for compute capability {}.{}: "
                            "build with ./run on this machine or -DSLUICE_CUDA_ARCHS=all",
                            describe(gpu_code()), capability / 10, capability % 10));
  return code;
}

std::string describe(const GpuCode& code) {
  if (code.empty()) return "no GPU code";
  if (code.ptx.empty()) return versions(code.machine);
  return (code.machine.empty() ? "" : versions(code.machine) + ", and ") + "PTX of " +
         versions(code.ptx);
}

}  // namespace sluice::device
