// Any bytes as a text: batches and single texts have the same ids, and offsets lie in the text.
#include <algorithm>
#include <cstdlib>

#include "text/small_tokenizers_for_tests.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::text;
  static const Tokenizer tokenizers[] = {small_bert(), of_json(small_byte_bpe_json()),
                                         of_json(small_unigram_json()),
                                         of_json(small_byte_fallback_json("##", "</w>"))};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string store;
  const std::size_t characters = count_code_points(well_formed(text, store));
  for (const Tokenizer& tokenizer : tokenizers) {
    const auto encoding = tokenizer.encode(text);
    for (const Span& span : encoding.offsets)
      if (span.begin > span.end || span.end > characters) std::abort();
    if (!std::ranges::equal(encoding.ids, tokenizer.encode_batch({&text, 1}).ids)) std::abort();
    tokenizer.decode(encoding.ids);
  }
  return 0;
}
