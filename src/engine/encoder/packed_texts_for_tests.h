// Random texts as packed sequences, and their vectors.
#pragma once

#include <gmock/gmock.h>

#include <random>
#include <vector>

#include "engine/encoder/encoder.h"
#include "engine/encoder_for_tests.h"

namespace sluice::engine {

using Ids = std::vector<std::int32_t>;
using Texts = std::vector<Ids>;

struct PackedTexts {
  Ids ids, cu_seqlens{0};

  explicit PackedTexts(const Texts& texts) {
    for (const Ids& text : texts) {
      ids.insert(ids.end(), text.begin(), text.end());
      cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
    }
  }
  PackedTokens tokens() const { return {.ids = ids, .type_ids = {}, .cu_seqlens = cu_seqlens}; }
};

// Of 1 to `longest` tokens that EncoderForTests knows.
inline Texts random_texts(std::mt19937_64& random, std::size_t count, std::size_t longest) {
  std::uniform_int_distribution<std::int32_t> id(0, EncoderForTests::kWords - 1);
  std::uniform_int_distribution<std::size_t> length(1, longest);
  Texts texts(count);
  for (Ids& text : texts) {
    text.resize(length(random));
    for (std::int32_t& one : text) one = id(random);
  }
  return texts;
}

// The encoder's rows; no text may have an error.
inline std::vector<float> rows_of(const Encoder& encoder, const Texts& texts) {
  const PackedTexts packed(texts);
  const auto rows = encoder.graph().pooled() ? texts.size() : packed.ids.size();
  std::vector<float> out(rows * static_cast<std::size_t>(encoder.graph().width()), -1);
  const auto errors = encoder.run(packed.tokens(), out);
  EXPECT_TRUE(errors.empty()) << errors[0].reason;
  return out;
}

}  // namespace sluice::engine
