#include "engine/ops/text/unicode.h"

#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"

namespace sluice::engine {
namespace {

template <class Change>
std::string changed(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    utf8proc_int32_t code_point = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    require(length > 0, "text that is not UTF-8");
    append_utf8(out, static_cast<std::uint32_t>(change(code_point)));
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return out;
}

// utf8proc maps "ß" to "ẞ", unlike the simple mapping of Unicode and the C library.
utf8proc_int32_t to_upper(utf8proc_int32_t code_point) {
  constexpr utf8proc_int32_t kSharpS = 0xDF;
  return code_point == kSharpS ? code_point : utf8proc_toupper(code_point);
}

}  // namespace

std::string lower(std::string_view text) { return changed(text, utf8proc_tolower); }
std::string upper(std::string_view text) { return changed(text, to_upper); }

}  // namespace sluice::engine
