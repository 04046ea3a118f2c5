// The most probable way to cut a word into pieces (Viterbi). A character that no piece covers costs
// more than any piece; neighbours of that kind become one token.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/model/model.h"
#include "text/model/trie.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

constexpr double kUnknownPenalty = 10;

Vocabulary vocabulary_of(const std::vector<UnigramPiece>& pieces) {
  Vocabulary vocabulary;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    vocabulary.add(pieces[i].text, static_cast<std::uint32_t>(i));
  return vocabulary;
}

class Unigram final : public Model {
 public:
  Unigram(const std::vector<UnigramPiece>& pieces, std::optional<std::uint32_t> unknown,
          bool byte_fallback)
      : Model(vocabulary_of(pieces)), unknown_(unknown) {
    double lowest = std::numeric_limits<double>::infinity();
    scores_.reserve(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      scores_.push_back(pieces[i].score);
      lowest = std::min(lowest, pieces[i].score);
      if (!pieces[i].text.empty()) pieces_.insert(pieces[i].text, static_cast<std::uint32_t>(i));
    }
    unknown_score_ = lowest - kUnknownPenalty;
    for (unsigned byte = 0; byte_fallback && byte < 256; ++byte)
      bytes_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }

  std::optional<std::uint32_t> shown_as_text() const noexcept override { return unknown_; }

  void tokenize(std::string_view word, ModelScratch& scratch,
                std::vector<Token>& tokens) const override {
    find_best(word, scratch.best);
    auto& path = scratch.reversed;
    path.clear();
    for (auto end = static_cast<std::uint32_t>(word.size()); end > 0;) {
      const auto& best = scratch.best[end];
      const bool is_unknown = best.id == unknown_;
      if (is_unknown && !path.empty() && path.back().id == unknown_)
        path.back().begin = best.begin;
      else
        path.push_back({best.id, best.begin, end});
      end = best.begin;
    }
    for (auto token = path.rbegin(); token != path.rend(); ++token) {
      if (token->id == unknown_)
        add_unknown(word, *token, tokens);
      else
        tokens.push_back(*token);
    }
  }

 private:
  void find_best(std::string_view word, std::vector<ModelScratch::Best>& best) const {
    best.assign(word.size() + 1, {});
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t next = begin + utf8_length(word[begin]);
      const double so_far = best[begin].score;
      const auto offer = [&](std::size_t end, std::uint32_t id, double score) {
        auto& target = best[end];
        if (target.reached && score <= target.score) return;
        target = {score, static_cast<std::uint32_t>(begin), id, true};
      };
      bool has_single = false;
      pieces_.each_prefix(word, begin, [&](std::size_t end, std::uint32_t id) {
        offer(end, id, scores_[id] + so_far);
        has_single = has_single || end == next;
      });
      if (!has_single) {
        require(unknown_.has_value(),
                "a text has characters that the tokenizer does not know, "
                "and it has no unknown token");
        offer(next, *unknown_, unknown_score_ + so_far);
      }
      begin = next;
    }
  }

  void add_unknown(std::string_view word, const Token& token, std::vector<Token>& tokens) const {
    const auto text = word.substr(token.begin, token.end - token.begin);
    const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (const auto id = vocabulary_.find(text))
      tokens.push_back({*id, token.begin, token.end});
    else if (std::ranges::all_of(text, [&](char c) { return byte(c).has_value(); }))
      for (const char c : text) tokens.push_back({*byte(c), token.begin, token.end});
    else
      tokens.push_back(token);
  }

  std::optional<std::uint32_t> unknown_;
  double unknown_score_ = 0;
  std::vector<double> scores_;
  Trie pieces_;
  std::optional<std::uint32_t> bytes_[256];
};

}  // namespace

ModelPtr make_unigram(const std::vector<UnigramPiece>& pieces, std::optional<std::uint32_t> unknown,
                      bool byte_fallback) {
  require(!pieces.empty(), "the vocabulary is empty");
  require(!unknown || *unknown < pieces.size(),
          "the id of the unknown token is not in the vocabulary");
  return std::make_shared<Unigram>(pieces, unknown, byte_fallback);
}

}  // namespace sluice::text
