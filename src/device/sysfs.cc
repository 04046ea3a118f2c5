#include "device/sysfs.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/file_to_read.h"

namespace sluice::device {

namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr unsigned kMaxCpus = 1 << 16;  // a longer list is not a list of CPUs

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

Path under(const Path& root, std::string_view absolute) {
  while (absolute.starts_with('/')) absolute.remove_prefix(1);
  return root / absolute;
}

std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::string> read_text(const Path& file) {
  constexpr std::size_t kMaxBytes = 16 << 20;  // no file of the kernel's has more
  return read_named_file(file, kMaxBytes);
}

std::optional<std::string> read_line(const Path& file) {
  const auto text = read_text(file);
  if (!text) return std::nullopt;
  const auto line = trimmed(*text);
  if (line.empty()) return std::nullopt;
  return std::string(line);
}

std::optional<std::int64_t> to_int(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with("0x") || text.starts_with("0X"))
    return number<std::int64_t>(text.substr(2), 16);
  return number<std::int64_t>(text);
}

std::optional<std::uint64_t> to_size(std::string_view text) {
  text = trimmed(text);
  std::uint64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K': unit = 1ull << 10; break;
      case 'M': unit = 1ull << 20; break;
      case 'G': unit = 1ull << 30; break;
      default: break;
    }
    if (unit != 1) text.remove_suffix(1);
  }
  const auto value = number<std::uint64_t>(text);
  if (!value || *value > UINT64_MAX / unit) return std::nullopt;
  return *value * unit;
}

std::optional<std::int64_t> read_int(const Path& file) {
  const auto line = read_line(file);
  return line ? to_int(*line) : std::nullopt;
}

std::optional<std::uint64_t> read_size(const Path& file) {
  const auto line = read_line(file);
  return line ? to_size(*line) : std::nullopt;
}

std::vector<std::string> numbered(const Path& folder, std::string_view prefix) {
  std::vector<std::pair<unsigned, std::string>> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(folder, ignored), end; it != end;
       it.increment(ignored)) {
    auto name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    if (const auto n = number<unsigned>(std::string_view(name).substr(prefix.size())))
      found.emplace_back(*n, std::move(name));
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [n, name] : found) names.push_back(std::move(name));
  return names;
}

std::vector<unsigned> cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  for (const auto part : split(trimmed(text), ',')) {
    const auto dash = part.find('-');
    const auto first = number<unsigned>(trimmed(part.substr(0, dash)));
    const auto last =
        dash == std::string_view::npos ? first : number<unsigned>(trimmed(part.substr(dash + 1)));
    if (!first || !last || *last >= kMaxCpus) continue;
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string to_cpu_list(const std::vector<unsigned>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += '-' + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<std::string> nvidia_cards(const Path& root) {
  constexpr std::int64_t kNvidia = 0x10de;
  std::vector<std::string> buses;
  std::error_code ignored, failed;
  const auto folder = under(root, "/sys/bus/pci/devices");
  for (std::filesystem::directory_iterator it(folder, ignored), end; it != end;
       it.increment(ignored)) {
    const auto kind = read_int(it->path() / "class");
    const auto driver = std::filesystem::read_symlink(it->path() / "driver", failed).filename();
    if (read_int(it->path() / "vendor") == kNvidia && kind && *kind >> 16 == 0x03 &&
        driver != "vfio-pci")
      buses.push_back(it->path().filename().string());
  }
  std::ranges::sort(buses);
  return buses;
}

}  // namespace sluice::device
