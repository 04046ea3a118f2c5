#include "watch/config.h"

#include "base/error.h"
#include "base/http/url.h"

namespace sluice::watch {

std::string webhook_cause(std::string_view text) {
  if (text.empty()) return {};
  try {
    parse_url(text);
    return {};
  } catch (const Error& e) {
    return std::string(e.reason());
  }
}

}  // namespace sluice::watch
