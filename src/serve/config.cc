#include "serve/config.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/settings_value.h"
#include "serve/address.h"

namespace sluice::serve {

namespace {

constexpr std::size_t kMinKeyBytes = 16;
constexpr std::uint64_t kMinBudget = 16 << 20;  // with less, hardly anything is answered

constexpr std::int64_t kMinBudgetSetting = 1 << 20;

std::optional<unsigned> mode_of(std::string_view text) noexcept {
  unsigned mode = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, mode, 8);
  const bool whole = failed == std::errc() && stop == end && text.size() >= 3 && text.size() <= 4;
  return whole && mode <= 0777 ? std::optional(mode) : std::nullopt;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

std::string host_cause(std::string_view text) {
  if (text.empty()) return "is empty; give an address such as 127.0.0.1, or leave it out";
  if (is_address(text) || is_host_name(text)) return {};
  const auto with_port = split_host(text);
  if (with_port && with_port->port)
    return in_quotes(text) + " has a port in it; that is the setting port";
  return in_quotes(text) + " is no address and no host name";
}

std::string key_cause(std::string_view text) {
  if (text.empty()) return {};  // none is needed
  if (std::ranges::all_of(text, is_blank)) return "is blank; give a key, or leave it out";
  if (is_blank(text.front()) || is_blank(text.back()))
    return "begins or ends with a space, which no client can send";
  if (std::ranges::any_of(text, is_control))
    return "has a control character in it, which no client can send";
  if (text.size() < kMinKeyBytes)
    return "has " + std::to_string(text.size()) + " characters and can be guessed; give at least " +
           std::to_string(kMinKeyBytes) + ", for example what 'openssl rand -hex 16' prints";
  return {};
}

std::string allowed_host_cause(std::string_view text) {
  if (text.empty()) return "is empty; give a host name such as gpu.example.com";
  if (split_host(text) || is_address(text)) return {};
  if (text.find("://") != text.npos)
    return in_quotes(text) + " is a web address; give its host alone, with a port if need be";
  if (text.find('*') != text.npos)
    return in_quotes(text) + " has a wildcard; give each name in full";
  return in_quotes(text) + " is no host name, alone or with a port from 1 to 65535";
}

std::string socket_mode_cause(std::string_view text) {
  const auto mode = mode_of(text);
  if (!mode) return in_quotes(text) + " is no octal file mode such as 0600, 0660 or 0666";
  return (*mode & 0600) == 0600 ? "" : in_quotes(text) + " keeps the server's own user out";
}

unsigned socket_mode_of(const ServeConfig& config) noexcept {
  return mode_of(config.socket_mode).value_or(0600);
}

void ServeConfig::check_together(std::vector<std::string>& found) const {
  if (!admin_key.empty() && admin_key.equals(api_key.reveal()))
    found.push_back("admin_key is the same as api_key: every client would be an administrator");
  if (memory_budget > 0 && memory_budget < kMinBudgetSetting)
    found.push_back("memory_budget is " + std::to_string(memory_budget) +
                    " bytes, with which nothing could be answered; give at least " +
                    std::to_string(kMinBudgetSetting) + " (1 MiB), or 0 for a quarter of memory");
}

std::uint64_t memory_budget_of(const ServeConfig& config, const device::Cpu& machine) noexcept {
  if (config.memory_budget > 0) return static_cast<std::uint64_t>(config.memory_budget);
  return std::max(kMinBudget, machine.memory_limit.value_or(machine.memory_total) / 4);
}

}  // namespace sluice::serve
