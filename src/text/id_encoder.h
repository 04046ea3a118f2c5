// Texts to ids alone, with caches. White space of ASCII ends what a cache knows, so most of a text
// is neither normalized nor split again.
#pragma once

#include <memory>

#include "text/id_cache.h"
#include "text/io/pipeline.h"

namespace sluice::text {

// Working memory of one thread.
struct IdScratch {
  IdCache chunks;  // raw, as they stand between white space
  IdCache words;   // what the model tokenizes
  IdBuffer ids;
  ModelScratch model;
  std::vector<Token> tokens;
  Pieces pieces;
  Normalized part;
  std::string well_formed, padded, word;
};

// Immutable; any number of threads may use it, each with a scratch of its own.
class IdEncoder {
 public:
  virtual ~IdEncoder() = default;
  // Appends the ids of a text to scratch.ids, without special tokens around it; it may stop once
  // there are `enough` more.
  virtual void append(std::string_view text, IdScratch& scratch, std::size_t enough) const = 0;
};

// The fastest that gives the ids of the pipeline, which must outlive it.
std::unique_ptr<IdEncoder> make_id_encoder(const Pipeline& pipeline);

// ---- for these encoders ------------------------------------------------------------

// Appends the ids of what the model takes for a word, from the cache or the model. `spelled` is the
// word as the model has it.
template <class Spell>
void append_word(const Model& model, std::string_view word, IdScratch& scratch, Spell&& spelled) {
  if (scratch.words.find(word, scratch.ids)) return;
  scratch.tokens.clear();
  model.tokenize(spelled(word), scratch.model, scratch.tokens);
  const std::size_t begin = scratch.ids.size();
  for (const Token& token : scratch.tokens) scratch.ids.push(token.id);
  scratch.words.insert(word, scratch.ids.from(begin));
}

// The length of the run at `text` up to a byte of 0x20 or less, if it is below 16; 16 otherwise.
// 16 bytes can be read. The first byte does not count with `from_second`.
inline std::size_t run_below_16(const char* text, bool from_second) noexcept {
  constexpr std::uint64_t kLimit = 0x2121212121212121, kHigh = 0x8080808080808080;
  const auto flags = [&](std::size_t at) {
    std::uint64_t eight;
    std::memcpy(&eight, text + at, 8);
    return (eight - kLimit) & ~eight & kHigh;
  };
  std::uint64_t found = flags(0);
  if (from_second) found &= ~std::uint64_t{0xFF};
  if (found != 0) return static_cast<std::size_t>(__builtin_ctzll(found)) / 8;
  found = flags(8);
  return found != 0 ? 8 + static_cast<std::size_t>(__builtin_ctzll(found)) / 8 : 16;
}

constexpr std::size_t kPadding = 32;  // bytes behind a text that can be read

std::unique_ptr<IdEncoder> make_bert_id_encoder(const Pipeline& pipeline);
std::unique_ptr<IdEncoder> make_byte_level_id_encoder(const Pipeline& pipeline);

}  // namespace sluice::text
