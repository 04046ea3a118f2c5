// Any bytes as tokenizer.json: a tokenizer whose batches have the ids of single texts and whose
// offsets lie in the text, or an Error.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "text/io/read.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const text::Tokenizer tokenizer(text::parse_tokenizer_json(json, "tokenizer.json"));
    for (const std::string_view text :
         {"The GPUs, \xC3\xA9t\xC3\xA9 [MASK]  x.", "", "\xFF <s>\n"}) {
      const auto encoding = tokenizer.encode(text);
      for (const text::Span& span : encoding.offsets)
        if (span.begin > span.end || span.end > text.size()) std::abort();
      if (!std::ranges::equal(encoding.ids, tokenizer.encode_batch({&text, 1}).ids)) std::abort();
      tokenizer.decode(encoding.ids);
      tokenizer.encode_pair(text, text, {.truncation = text::Truncation{.max_length = 9}});
    }
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
