// Tokens that are found in a text before anything else, such as [MASK].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/model/model.h"
#include "text/model/trie.h"
#include "text/normalize/normalizer.h"
#include "text/pretokenize/pieces.h"

namespace sluice::text {

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool single_word = false;             // not within a word
  bool lstrip = false, rstrip = false;  // takes the white space before it, behind it
  bool normalized = true;               // is looked for in the normalized text
  bool special = false;                 // decode() may leave it out
};

// Filled once; then any number of threads may read it.
class AddedTokens {
 public:
  // The id is that of an equal token of the model or of those before, or the next free one.
  void add(AddedToken token, const Vocabulary& vocabulary, const Normalizer* normalizer);

  // Cuts raw text, or normalized, at the tokens that are looked for there.
  void split(Pieces& pieces, bool normalized) const;

  // Calls visit(begin, end, id or none) for the parts of a text.
  template <class Visit>
  void each_part(std::string_view text, bool normalized, Visit&& visit) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto found = next(text, at, done, tries_[normalized]);
      if (!found) break;
      if (done < found->begin) visit(done, found->begin, std::nullopt);
      if (found->begin < found->end) visit(found->begin, found->end, std::optional(found->id));
      done = found->end;
    }
    if (done < text.size()) visit(done, text.size(), std::nullopt);
  }
  bool any(bool normalized) const noexcept { return !tries_[normalized].empty(); }

  const AddedToken* find(std::uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second.token;
  }
  // As decode() shows it.
  std::optional<std::string_view> token(std::uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? std::nullopt
                                 : std::optional<std::string_view>(found->second.shown);
  }
  std::optional<std::uint32_t> id(std::string_view content) const;
  bool is_special(std::string_view token) const;
  std::size_t count_beside(const Vocabulary& vocabulary) const;  // that it has not

 private:
  struct Known {
    AddedToken token;
    std::string shown;  // normalized
  };
  struct Occurrence {
    std::size_t begin, end;  // with the white space that it takes
    std::uint32_t id;
  };
  // The next token from `at` on, which it moves behind it; white space before `done` is taken.
  std::optional<Occurrence> next(std::string_view text, std::size_t& at, std::size_t done,
                                 const Trie& trie) const;

  std::unordered_map<std::string, std::uint32_t> ids_;
  std::unordered_map<std::uint32_t, Known> by_id_;
  std::unordered_map<std::string, bool> special_;
  Trie tries_[2];  // of raw text and of normalized
  std::optional<std::uint32_t> next_id_;
};

}  // namespace sluice::text
