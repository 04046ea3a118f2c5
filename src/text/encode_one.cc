#include "text/encode_one.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace sluice::text {
namespace {

// Bytes of a text to code points.
class CodePoints {
 public:
  CodePoints(std::string_view text, OffsetUnit unit) {
    if (unit == OffsetUnit::bytes || is_ascii(text)) return;
    numbers_.reserve(text.size() + 1);
    std::uint32_t number = 0;
    for_each_code_point(text, [&](char32_t, std::size_t begin, std::size_t end) {
      numbers_.insert(numbers_.end(), end - begin, number++);
    });
    numbers_.push_back(number);
  }

  Span operator()(const Span& bytes) const {
    return numbers_.empty() ? bytes : Span{numbers_[bytes.begin], numbers_[bytes.end]};
  }

 private:
  std::vector<std::uint32_t> numbers_;  // none when bytes are what is asked for
};

class Writer {
 public:
  Writer(const Pieces& pieces, const CodePoints& units, std::size_t most, Encoding& out)
      : pieces_(pieces), units_(units), out_(out), most_(most) {}

  void add(const Piece& piece, const Token& token, std::string text, std::uint32_t word) {
    made_ += 1 + text.size();
    require_made(made_, most_);
    out_.ids.push_back(token.id);
    out_.tokens.push_back(std::move(text));
    out_.offsets.push_back(units_(span_of(piece, token)));
    out_.words.emplace_back(word);
  }

 private:
  // A position beyond the piece counts as its end: whatever a model says, nothing beside the piece
  // is read. A token without bytes of the text has an empty span where it stands.
  Span span_of(const Piece& piece, const Token& token) const {
    const auto& spans = pieces_.text.spans;
    if (piece.begin >= piece.end) return {};
    const std::uint32_t end = std::min(token.end, piece.end - piece.begin);
    const std::uint32_t begin = std::min(token.begin, end);
    if (end == 0) return {spans[piece.begin].begin, spans[piece.begin].begin};
    const std::uint32_t last = spans[piece.begin + end - 1].end;
    return begin == end ? Span{last, last} : Span{spans[piece.begin + begin].begin, last};
  }

  const Pieces& pieces_;
  const CodePoints& units_;
  Encoding& out_;
  std::size_t made_ = 0, most_;  // tokens and bytes of them
};

std::string_view shown_part(std::string_view part, const Token& token) {
  const std::size_t begin = std::min<std::size_t>(token.begin, part.size());
  return part.substr(begin, std::max(token.begin, token.end) - token.begin);
}

}  // namespace

void require_size(std::string_view text) {
  require(text.size() <= kMaxTextBytes,
          fmt::format("a text has {} bytes, more than {}", text.size(), kMaxTextBytes));
}

void split_into_words(const Pipeline& pipeline, std::string_view text, bool tracks,
                      Pieces& pieces) {
  pieces.text.assign(text, tracks);
  pieces.pieces.clear();
  if (text.empty()) return;
  pieces.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  pipeline.added.split(pieces, false);
  if (pipeline.normalizer)
    rewrite_each(pieces, [&](Normalized& part) { pipeline.normalizer->apply(part); });
  pipeline.added.split(pieces, true);
  if (pipeline.pre_tokenizer) pipeline.pre_tokenizer->apply(pieces);
}

Encoding OneEncoder::encode(std::string_view text, std::uint32_t type_id, OffsetUnit unit) const {
  require_size(text);
  std::string store;
  text = well_formed(text, store);
  Pieces pieces;
  split_into_words(pipeline_, text, true, pieces);
  const CodePoints units(text, unit);
  const auto shown_as_text = pipeline_.model->shown_as_text();
  const Vocabulary& vocabulary = pipeline_.model->vocabulary();
  Encoding out;
  Writer writer(pieces, units, most_made_of(text.size()), out);
  ModelScratch scratch;
  std::vector<Token> tokens;
  for (std::uint32_t word = 0; word < pieces.pieces.size(); ++word) {
    const Piece& piece = pieces.pieces[word];
    const auto part = pieces.view(piece);
    tokens.clear();
    if (piece.token)
      tokens.push_back({*piece.token, 0, static_cast<std::uint32_t>(part.size())});
    else
      pipeline_.model->tokenize(part, scratch, tokens);
    for (const Token& token : tokens) {
      const bool as_text = piece.token || token.id == shown_as_text;
      const auto shown =
          as_text ? shown_part(part, token) : vocabulary.token(token.id).value_or("");
      writer.add(piece, token, std::string(shown), word);
    }
  }
  out.type_ids.assign(out.size(), type_id);
  out.special.assign(out.size(), 0);
  return out;
}

}  // namespace sluice::text
