#include "watch/alert.h"

namespace sluice::watch {

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::info: return "info";
    case Severity::warning: return "warning";
    case Severity::critical: return "critical";
  }
  return "unknown";
}

}  // namespace sluice::watch
