// Applies the defaults of a gpu_type and warns where the machine differs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/units.h"
#include "device/config.h"

namespace sluice::device {

namespace {

constexpr double kGb = 1 << 30;

// Batch sizes that a card's memory carries, lowest to highest.
struct BatchRow {
  double memory_gb;
  std::int64_t low, high;
};
constexpr std::array kBatchRows = {BatchRow{0, 4, 8}, BatchRow{4, 8, 16}, BatchRow{8, 16, 32},
                                   BatchRow{12, 32, 64}, BatchRow{24, 64, 128}};

constexpr std::array kAgents = {AgentDefault{"synthesizer", 6, 16}, AgentDefault{"analyst", 4, 32},
                                AgentDefault{"scout", 8, 64}};

// A card sold as 24 GB may report a little less, or be counted in powers of ten.
BatchRow row_for(double memory_gb) {
  BatchRow found = kBatchRows.front();
  for (const auto& row : kBatchRows)
    if (memory_gb >= row.memory_gb * 0.93) found = row;
  return found;
}

double nominal_gb(const Card& card) {
  return std::round(static_cast<double>(card.memory_bytes) / kGb * 10) / 10;
}

std::set<std::string> words(std::string_view text) {
  std::set<std::string> found;
  std::string word;
  for (const char c : std::string(text) + " ") {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      word += static_cast<char>(std::tolower(letter));
    } else if (!word.empty()) {
      found.insert(std::exchange(word, {}));
    }
  }
  return found;
}

// Returns whether `found` is what `name` asks for: the very card, or a member of the family
// when the name leaves the member open. "A100" is any A100 and "H100" an H100 PCIe, but
// an "RTX 3060" is no 3060 Ti.
bool agrees(std::string_view name, const Card& profile, const Card& found) {
  if (profile.key == found.key) return true;
  const auto requested = words(name);
  const auto of_found = words(fmt::format("{} {}", found.key, found.title));
  const bool exact = requested == words(profile.key) || requested == words(profile.title);
  return std::ranges::includes(of_found, requested) &&
         (!exact || profile.memory_bytes == found.memory_bytes);
}

std::string describe(const Gpu& gpu) {
  return gpu.memory_total ? fmt::format("{} ({})", gpu.name, human_bytes(*gpu.memory_total))
                          : gpu.name;
}

void contradictions(const GpuConfig& config, const Card& profile, const Inventory& inventory,
                    std::vector<std::string>& found) {
  if (inventory.gpus.empty())
    found.push_back(
        fmt::format("gpu.gpu_type is {} ({}), but no GPU was found; the CPU does the work",
                    config.gpu_type, profile.title));
  for (const auto& gpu : inventory.gpus)
    if (!gpu.card || !agrees(config.gpu_type, profile, *gpu.card))
      found.push_back(
          fmt::format("gpu.gpu_type is {} ({}, {}), but the card found at {} is {}; the profile's "
                      "memory, batch "
                      "and precision defaults may not fit it",
                      config.gpu_type, profile.title, human_bytes(profile.memory_bytes), gpu.bus,
                      describe(gpu)));
}

std::optional<Precision> precision_named(std::string_view name) {
  for (const auto p : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16,
                       Precision::fp8, Precision::int8})
    if (to_string(p) == name) return p;
  return std::nullopt;
}

std::string slow_precision(const GpuConfig& config, std::string_view title, const Peaks& peaks) {
  const auto chosen = precision_named(config.precision);
  if (!chosen || *chosen == Precision::fp32) return {};
  const auto peak = peaks.of(*chosen);
  if (peak && peak >= peaks.of(Precision::fp32).value_or(0)) return {};
  return fmt::format("gpu.precision is {}, which {} {}; it is better at {}", config.precision,
                     title, peak ? "computes slower than fp32" : "has no fast path for",
                     to_string(recommend(peaks).precision));
}

void too_large(const GpuConfig& config, std::string_view title, double memory_gb,
               std::vector<std::string>& found) {
  for (const auto& [agent, gb] : config.memory_allocation)
    if (gb > memory_gb * config.memory_fraction)
      found.push_back(
          fmt::format("gpu.memory_allocation gives {} {:.1f} GB, but one {} has {:.1f} GB, of "
                      "which {:.0f} % may be "
                      "used",
                      agent, gb, title, memory_gb, config.memory_fraction * 100));
}

std::optional<Card> card_of(const GpuConfig& config) {
  if (config.gpu_type.empty()) return std::nullopt;
  return find_profile(config.gpu_type);
}

// Checks the detected card if there is no profile.
void judge_found(const GpuConfig& config, const Gpu& gpu, std::vector<std::string>& found) {
  if (gpu.card)
    if (auto slow = slow_precision(config, gpu.name, gpu.card->peaks); !slow.empty())
      found.push_back(std::move(slow));
  if (gpu.memory_total)
    too_large(config, gpu.name, static_cast<double>(*gpu.memory_total) / kGb, found);
}

}  // namespace

std::optional<AgentDefault> agent_default(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kAgents, name, &AgentDefault::name);
  return found == kAgents.end() ? std::nullopt : std::optional(*found);
}

ProfileDefaults profile_defaults(const Card& card, double memory_fraction) {
  ProfileDefaults out{std::string(card.key), nominal_gb(card), 0, {}, {}, {}};
  const auto row = row_for(out.memory_gb);
  out.batch_size = row.low;
  double total_gb = 0;
  for (const auto& agent : kAgents) total_gb += agent.memory_gb;
  const double scale = std::min(1.0, out.memory_gb * memory_fraction / total_gb);
  for (const auto& agent : kAgents) {
    const std::string name(agent.name);
    out.batch_sizes[name] = std::min(agent.batch, row.high);
    out.memory_allocation[name] = std::floor(agent.memory_gb * scale * 10) / 10;
  }
  out.precision = to_string(recommend(card.peaks).precision);
  return out;
}

std::optional<ProfileDefaults> profile_of(const GpuConfig& config) {
  const auto card = card_of(config);
  if (!card) return std::nullopt;
  return profile_defaults(*card, config.memory_fraction);
}

std::vector<std::string> profile_warnings(const GpuConfig& config) {
  std::vector<std::string> found;
  const auto card = card_of(config);
  if (!card) return found;
  if (auto slow = slow_precision(config, card->title, card->peaks); !slow.empty())
    found.push_back(std::move(slow));
  too_large(config, card->title, config.memory_gb > 0 ? config.memory_gb : nominal_gb(*card),
            found);
  return found;
}

std::vector<std::string> profile_warnings(const GpuConfig& config, const Inventory& inventory) {
  if (!config.enabled) return {};
  auto found = profile_warnings(config);
  const auto profile = card_of(config);
  if (profile)
    contradictions(config, *profile, inventory, found);
  else
    for (const auto& gpu : inventory.gpus) judge_found(config, gpu, found);
  return found;
}

}  // namespace sluice::device
