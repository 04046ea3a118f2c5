#include "device/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/nearest.h"

namespace sluice::device {

namespace {

constexpr std::array<std::string_view, 8> kCapabilities = {
    "all", "compute", "compat32", "graphics", "utility", "video", "display", "ngx"};

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() < 5 && text.find_first_not_of("0123456789") == text.npos;
}

// "GPU-5f1c…" or a prefix of one, as CUDA accepts it; "MIG-…".
bool is_uuid(std::string_view text) {
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  return text.size() > 4 && text.size() < 100 &&
         std::ranges::all_of(text.substr(4), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '/';
         });
}

// Names and buses that other vendors' devices go by here.
bool is_other_vendor(std::string_view text) {
  return text.starts_with("AMD-") || text.starts_with("INTEL-") || text.starts_with("APPLE-");
}

bool is_mig_pair(std::string_view text) {
  const auto colon = text.find(':');
  return colon != text.npos && all_digits(text.substr(0, colon)) &&
         all_digits(text.substr(colon + 1));
}

bool is_percent(std::string_view metric) { return metric.ends_with("_utilization"); }

}  // namespace

std::string gpu_type_cause(std::string_view text) {
  if (text.empty() || find_profile(text)) return {};
  std::vector<std::string_view> keys;
  for (const auto& card : catalogue()) keys.push_back(card.key);
  std::string word(text.substr(0, 64));
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string listed;
  for (const auto key : keys) listed += (listed.empty() ? "" : ", ") + std::string(key);
  return fmt::format("'{}' is no card of the catalogue{}; known are {}", text.substr(0, 64),
                     did_you_mean(word, keys), listed);
}

std::string device_cause(std::string_view text) {
  if (text == "all" || all_digits(text) || is_uuid(text) || is_other_vendor(text)) return {};
  if (text.starts_with('-'))
    return fmt::format("{} is no device; an empty list means none", text.substr(0, 20));
  return fmt::format("'{}' is neither an index, a UUID such as GPU-5f1c0a2e nor 'all'",
                     text.substr(0, 64));
}

std::string container_devices_cause(std::string_view text) {
  if (text.empty() || text == "none" || text == "void" || is_mig_pair(text)) return {};
  const bool injected =
      text.find("nvidia.com/") != text.npos || text.starts_with("/var/run/nvidia");
  if (injected || device_cause(text).empty()) return {};
  return fmt::format("'{}' is not all, none, void, an index or a UUID", text.substr(0, 64));
}

std::string capability_cause(std::string_view text) {
  if (std::ranges::find(kCapabilities, text) != kCapabilities.end()) return {};
  return fmt::format("'{}' is no driver capability{}", text.substr(0, 64),
                     did_you_mean(text.substr(0, 64), kCapabilities));
}

std::string read_cuda_visible_devices(std::string_view text, std::string& cause) {
  if (text == "-1" || text == "NoDevFiles") return {};
  if (text == "all") cause = "CUDA takes 'all' for no device; unset it to see every GPU";
  return std::string(text);
}

void GpuConfig::check_together(std::vector<std::string>& found) const {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].text == "all" && devices.size() > 1)
      found.push_back("devices has 'all' beside others; write one or the other");
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      found.push_back(fmt::format("devices names {} twice", devices[i].text));
  }
}

void AutoscalingConfig::check_together(std::vector<std::string>& found) const {
  if (min_instances > max_instances)
    found.push_back(fmt::format("min_instances ({}) is above max_instances ({})", min_instances,
                                max_instances));
  if (is_percent(metric) && target > 100)
    found.push_back(fmt::format("target ({}) of {} is a percentage and above 100", target, metric));
}

}  // namespace sluice::device
