// Any bytes as a SentencePiece model: a tokenizer that encodes and decodes, or an Error.
#include <cstdlib>

#include "base/error.h"
#include "text/io/read.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const text::Tokenizer tokenizer(text::parse_sentencepiece(bytes, "spiece.model"));
    for (const std::string_view text :
         {"The  GPUs \xC3\xA9\xCC\x81 abc", "\xEF\xBC\xA1\xF0\x9F\x98\x80"})
      tokenizer.decode(tokenizer.encode(text).ids);
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
