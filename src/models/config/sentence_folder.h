// Folders as sentence-transformers saves them: how the tokens of a model become a vector.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/reduce/pool_tokens.h"
#include "models/config/dense.h"

namespace sluice::models {

struct SentenceFolder {
  std::filesystem::path encoder;  // the model and its tokenizer
  kernels::TokenPooling pooling = kernels::TokenPooling::mean;
  std::vector<Dense> dense{};  // applied to the pooled vector, in this order
  bool normalize = false;
  std::int64_t max_length = 512;                 // tokens, with special ones
  std::map<std::string, std::string> prompts{};  // by name: "query", "passage"
  std::string default_prompt{};                  // a name; empty: none
};

// Reads modules.json and what it names; without it, the folder is the encoder, and its tokens are
// pooled by their mean. Throws not_found, invalid_argument with file and reason, or unavailable
// for modules that are not supported. Nothing outside of the folder is read.
SentenceFolder read_sentence_folder(const std::filesystem::path& folder);

}  // namespace sluice::models
