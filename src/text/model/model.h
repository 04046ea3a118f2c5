// Words to tokens. Each model is immutable; any number of threads may use it, each with a scratch
// of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/model/vocabulary.h"

namespace sluice::text {

struct Token {
  std::uint32_t id = 0;
  std::uint32_t begin = 0, end = 0;  // bytes of the word
  bool operator==(const Token&) const = default;
};

// Memory that a model uses again for each word.
struct ModelScratch {
  struct Symbol {
    std::uint32_t id = 0, length = 0;  // bytes of the word; 0 for a byte of a prefix or suffix
    std::int32_t previous = -1, next = -1;
    bool gone = false;  // merged into the one before it
  };
  struct Merge {
    std::uint32_t rank = 0, at = 0, id = 0;
  };
  struct Best {
    double score = 0;
    std::uint32_t begin = 0, id = 0;
    bool reached = false;
  };
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::vector<Best> best;
  std::vector<Token> reversed;
  std::string text;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of a word, which is not empty. Takes time in proportion
  // to n log n (BPE) or n times the longest token (WordPiece, Unigram).
  virtual void tokenize(std::string_view word, ModelScratch& scratch,
                        std::vector<Token>& tokens) const = 0;
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  // The id that stands for what is not known and is shown as the text itself.
  virtual std::optional<std::uint32_t> shown_as_text() const noexcept { return std::nullopt; }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Vocabulary vocabulary_;
};

using ModelPtr = std::shared_ptr<const Model>;

struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  std::size_t max_chars = 100;  // a longer word is unknown
};
// Throws invalid_argument when the unknown token is not in the vocabulary.
ModelPtr make_wordpiece(Vocabulary vocabulary, const WordPieceOptions& options);

ModelPtr make_wordlevel(Vocabulary vocabulary, const std::string& unknown);

struct BpeOptions {
  std::optional<std::string> unknown;
  std::string prefix, suffix;  // of the parts of a word but the first; of the last one
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};
// Of a prefix or suffix: with byte_fallback each byte of it may become a token of each character.
inline constexpr std::size_t kMaxAffixBytes = 32;
using MergePairs = std::vector<std::pair<std::string, std::string>>;  // by rank
ModelPtr make_bpe(Vocabulary vocabulary, const MergePairs& merges, const BpeOptions& options);

struct UnigramPiece {
  std::string text;
  double score = 0;
};
ModelPtr make_unigram(const std::vector<UnigramPiece>& pieces, std::optional<std::uint32_t> unknown,
                      bool byte_fallback);

}  // namespace sluice::text
