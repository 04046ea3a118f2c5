// Lines of Prometheus text; see exposition.h.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace sluice::serve {

inline void header(std::string& out, std::string_view name, std::string_view help,
                   std::string_view type) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

inline void counter(std::string& out, std::string_view name, std::string_view help,
                    std::uint64_t value) {
  header(out, name, help, "counter");
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

}  // namespace sluice::serve
