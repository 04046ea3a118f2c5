// The parts of a tokenizer, in the order in which a text passes them.
#pragma once

#include <optional>

#include "text/added/added_tokens.h"
#include "text/decode/decoder.h"
#include "text/model/model.h"
#include "text/normalize/normalizer.h"
#include "text/pretokenize/pretokenizer.h"
#include "text/process/processor.h"

namespace sluice::text {

struct Pipeline {
  NormalizerPtr normalizer;       // may be null
  PreTokenizerPtr pre_tokenizer;  // may be null
  ModelPtr model;
  ProcessorPtr processor;  // may be null
  DecoderPtr decoder;      // null: tokens joined by spaces
  AddedTokens added;
  std::optional<Truncation> truncation;
};

}  // namespace sluice::text
