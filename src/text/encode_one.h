// One text to tokens with all that is known of them.
#pragma once

#include "text/io/pipeline.h"
#include "text/tokenizer.h"

namespace sluice::text {

inline constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;

// Throws invalid_argument for a text of more than kMaxTextBytes.
void require_size(std::string_view text);

// The parts that the model tokenizes, and added tokens; `text` is well-formed.
void split_into_words(const Pipeline& pipeline, std::string_view text, bool tracks, Pieces& pieces);

class OneEncoder {
 public:
  explicit OneEncoder(const Pipeline& pipeline) : pipeline_(pipeline) {}

  // Without special tokens around it.
  Encoding encode(std::string_view text, std::uint32_t type_id, OffsetUnit unit) const;

 private:
  const Pipeline& pipeline_;
};

}  // namespace sluice::text
