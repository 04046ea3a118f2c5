// WordPiece: the longest known start of a word, then the longest known continuation, and so on; a
// word that does not come out is unknown. WordLevel, beside it, knows whole words only.
#include "base/error.h"
#include "base/printable.h"
#include "text/model/model.h"
#include "text/model/trie.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

std::uint32_t id_of(const Vocabulary& vocabulary, const std::string& unknown) {
  const auto id = vocabulary.find(unknown);
  require(id.has_value(), "the unknown token " + in_quotes(unknown) + " is not in the vocabulary");
  return *id;
}

class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, const WordPieceOptions& options)
      : Model(std::move(vocabulary)),
        max_chars_(options.max_chars),
        unknown_(id_of(vocabulary_, options.unknown)) {
    vocabulary_.each([&](std::string_view token, std::uint32_t id) {
      starts_.insert(token, id);
      if (token.starts_with(options.prefix) && token.size() > options.prefix.size())
        continuations_.insert(token.substr(options.prefix.size()), id);
    });
  }

  void tokenize(std::string_view word, ModelScratch&, std::vector<Token>& tokens) const override {
    const std::size_t known = tokens.size();
    const auto size = static_cast<std::uint32_t>(word.size());
    const bool too_long = size > max_chars_ && count_code_points(word) > max_chars_;
    for (std::size_t at = 0; at < size && !too_long;) {
      const auto found = (at == 0 ? starts_ : continuations_).longest(word, at);
      if (found.value == Trie::kNone) break;
      tokens.push_back(
          {found.value, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(found.end)});
      at = found.end;
    }
    if (tokens.size() > known && tokens.back().end == size) return;
    tokens.resize(known);
    tokens.push_back({unknown_, 0, size});
  }

 private:
  std::size_t max_chars_;
  std::uint32_t unknown_;
  Trie starts_, continuations_;
};

class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unknown)
      : Model(std::move(vocabulary)), unknown_(id_of(vocabulary_, unknown)) {}

  void tokenize(std::string_view word, ModelScratch&, std::vector<Token>& tokens) const override {
    const auto id = vocabulary_.find(word);
    tokens.push_back({id.value_or(unknown_), 0, static_cast<std::uint32_t>(word.size())});
  }

 private:
  std::uint32_t unknown_;
};

}  // namespace

ModelPtr make_wordpiece(Vocabulary vocabulary, const WordPieceOptions& options) {
  return std::make_shared<WordPiece>(std::move(vocabulary), options);
}

ModelPtr make_wordlevel(Vocabulary vocabulary, const std::string& unknown) {
  return std::make_shared<WordLevel>(std::move(vocabulary), unknown);
}

}  // namespace sluice::text
