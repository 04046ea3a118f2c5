#include "text/added/added_tokens.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

constexpr std::size_t kMostTimesOfContent = 64;  // bytes that a normalizer may make of one

char32_t last_code_point(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_tail_byte(text[at])) --at;
  return next_code_point(text, at);
}

bool ends_in_word(std::string_view text) {
  return !text.empty() && is(last_code_point(text), kWord);
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is(next_code_point(text, at), kWord);
}

// Where the white space at the end of a text begins.
std::size_t end_without_spaces(std::string_view text) {
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && is_tail_byte(text[at])) --at;
    std::size_t next = at;
    if (!is(next_code_point(text, next), kWhitespace)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    std::size_t next = end;
    if (!is(next_code_point(text, next), kWhitespace)) break;
    end = next;
  }
  return end;
}

}  // namespace

void AddedTokens::add(AddedToken token, const Vocabulary& vocabulary,
                      const Normalizer* normalizer) {
  if (token.content.empty()) return;
  if (!next_id_) next_id_ = static_cast<std::uint32_t>(vocabulary.size());
  const auto known = ids_.find(token.content);
  const auto of_model = vocabulary.find(token.content);
  token.id = known != ids_.end() ? known->second : of_model ? *of_model : (*next_id_)++;
  ids_[token.content] = token.id;
  if (token.special) special_[token.content] = true;
  std::string shown = token.content;
  if (token.normalized && normalizer != nullptr) {
    Normalized text;
    text.assign(token.content, false);
    text.most = kMostTimesOfContent * (token.content.size() + 1);  // a file has many tokens
    normalizer->apply(text);
    shown = text.text;
  }
  if (!shown.empty()) tries_[token.normalized].insert(shown, token.id);
  by_id_[token.id] = {std::move(token), std::move(shown)};
}

bool AddedTokens::is_special(std::string_view token) const {
  return special_.contains(std::string(token));
}

std::optional<std::uint32_t> AddedTokens::id(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t AddedTokens::count_beside(const Vocabulary& vocabulary) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ids_, [&](const auto& one) { return !vocabulary.find(one.first); }));
}

void AddedTokens::split(Pieces& pieces, bool normalized) const {
  if (tries_[normalized].empty()) return;
  std::vector<Piece> out;
  out.reserve(pieces.pieces.size());
  for (const Piece& piece : pieces.pieces) {
    if (piece.token) {
      out.push_back(piece);
      continue;
    }
    each_part(pieces.view(piece), normalized,
              [&](std::size_t begin, std::size_t end, std::optional<std::uint32_t> id) {
                out.push_back({piece.begin + static_cast<std::uint32_t>(begin),
                               piece.begin + static_cast<std::uint32_t>(end), id});
              });
  }
  pieces.pieces.swap(out);
}

std::optional<AddedTokens::Occurrence> AddedTokens::next(std::string_view text, std::size_t& at,
                                                         std::size_t done, const Trie& trie) const {
  for (at = trie.next_start(text, at); at < text.size(); at = trie.next_start(text, at)) {
    const auto found = trie.longest(text, at);
    if (found.value == Trie::kNone) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = found.end;
    at = end;
    const AddedToken& token = by_id_.at(found.value).token;
    if (token.single_word &&
        (ends_in_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(end_without_spaces(text.substr(0, begin)), done);
    if (token.rstrip) end += spaces_at_start(text.substr(end));
    return Occurrence{begin, end, found.value};
  }
  return std::nullopt;
}

}  // namespace sluice::text
