// The decoders of a tokenizer file: tokens to parts of a text. Each is immutable; any number of
// threads may use it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/pattern/pattern.h"

namespace sluice::text {

using Tokens = std::vector<std::string>;

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Throws invalid_argument when it makes more than `most` bytes of the tokens.
  virtual void apply(Tokens& tokens, std::size_t most) const = 0;
};

using DecoderPtr = std::shared_ptr<const Decoder>;

DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup);
DecoderPtr make_byte_level_decoder();
DecoderPtr make_metaspace_decoder(char32_t replacement, bool prepended);
DecoderPtr make_bpe_decoder(std::string suffix);
DecoderPtr make_byte_fallback_decoder();
DecoderPtr make_fuse_decoder();
DecoderPtr make_strip_decoder(char32_t content, std::size_t start, std::size_t stop);
DecoderPtr make_replace_decoder(Pattern pattern, std::string by);
DecoderPtr make_decoder_sequence(std::vector<DecoderPtr> parts);

}  // namespace sluice::text
