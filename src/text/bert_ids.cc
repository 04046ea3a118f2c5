// The fast path of encode_batch() for BERT tokenizers: text is cut at spaces, tabs and line ends,
// and each chunk is looked up in a cache; a new one is normalized, split and given to WordPiece.
#include "text/id_encoder.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

constexpr bool ends_chunk(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

class BertIdEncoder final : public IdEncoder {
 public:
  explicit BertIdEncoder(const Pipeline& pipeline)
      : pipeline_(pipeline), normalizer_(static_cast<const BertNormalizer&>(*pipeline.normalizer)) {
    for (int byte = 0; byte < 128; ++byte) ascii_[byte] = ascii_of(static_cast<char>(byte));
  }

  void append(std::string_view text, IdScratch& scratch, std::size_t enough) const override {
    text = well_formed(text, scratch.well_formed);
    const std::size_t limit =
        enough + scratch.ids.size() < enough ? enough : enough + scratch.ids.size();
    scratch.padded.assign(text).append(kPadding, ' ');
    const auto all = std::string_view(scratch.padded).substr(0, text.size());
    pipeline_.added.each_part(
        all, false, [&](std::size_t begin, std::size_t end, std::optional<std::uint32_t> token) {
          if (token)
            scratch.ids.push(*token);
          else
            append_part(all.data() + begin, all.data() + end, scratch, limit);
        });
  }

 private:
  struct Ascii {
    enum class Kind : std::uint8_t { letter, punctuation, space, dropped };
    Kind kind = Kind::letter;
    char lower = 0;
  };

  Ascii ascii_of(char c) const {
    const auto code = static_cast<char32_t>(c);
    const auto& options = normalizer_.options();
    const auto lower = lower_of(code);
    Ascii ascii;
    ascii.lower = options.lowercase && !lower.empty() ? static_cast<char>(lower[0]) : c;
    if (options.clean_text && is(code, kNotText))
      ascii.kind = Ascii::Kind::dropped;
    else if (is(code, kWhitespace))
      ascii.kind = Ascii::Kind::space;
    else if (is(code, kPunctuation))
      ascii.kind = Ascii::Kind::punctuation;
    return ascii;
  }

  void append_part(const char* at, const char* end, IdScratch& scratch, std::size_t limit) const {
    while (at < end && scratch.ids.size() < limit) {
      std::size_t length = run_below_16(at, false);
      if (at + length > end) length = static_cast<std::size_t>(end - at);
      const bool stops = at + length == end || ends_chunk(at[length]);
      if (length < 16 && stops) {
        if (length > 0) append_short(at, length, scratch);
      } else {
        while (at + length < end && !ends_chunk(at[length])) ++length;
        append_long({at, length}, scratch);
      }
      at += length + 1;
    }
  }

  void append_short(const char* chunk, std::size_t length, IdScratch& scratch) const {
    if (!scratch.chunks.find(ShortKey::of_padded(chunk, length), scratch.ids))
      append_new({chunk, length}, scratch);
  }

  void append_long(std::string_view chunk, IdScratch& scratch) const {
    if (!scratch.chunks.find(chunk, scratch.ids)) append_new(chunk, scratch);
  }

  void append_new(std::string_view chunk, IdScratch& scratch) const {
    const std::size_t begin = scratch.ids.size();
    is_ascii(chunk) ? split_ascii(chunk, scratch) : split(chunk, scratch);
    scratch.chunks.insert(chunk, scratch.ids.from(begin));
  }

  void append_one(std::string_view word, IdScratch& scratch) const {
    append_word(*pipeline_.model, word, scratch, [](std::string_view same) { return same; });
  }

  void split_ascii(std::string_view chunk, IdScratch& scratch) const {
    std::string& word = scratch.word;
    word.clear();
    const auto flush = [&] {
      if (!word.empty()) append_one(word, scratch);
      word.clear();
    };
    for (const char c : chunk) {
      const Ascii& ascii = ascii_[static_cast<unsigned char>(c)];
      switch (ascii.kind) {
        case Ascii::Kind::letter: word += ascii.lower; break;
        case Ascii::Kind::dropped: break;
        case Ascii::Kind::space: flush(); break;
        case Ascii::Kind::punctuation: flush(); append_one({&ascii.lower, 1}, scratch);
      }
    }
    flush();
  }

  void split(std::string_view chunk, IdScratch& scratch) const {
    scratch.part.assign(chunk, false);
    normalizer_.apply(scratch.part);
    const std::string_view text = scratch.part.text;
    std::size_t word = 0;
    const auto flush = [&](std::size_t end) {
      if (word < end) append_one(text.substr(word, end - word), scratch);
    };
    for_each_code_point(text, [&](char32_t c, std::size_t begin, std::size_t end) {
      const auto classes = classes_of(c);
      if ((classes & (kWhitespace | kPunctuation)) == 0) return;
      flush(begin);
      if ((classes & kWhitespace) == 0) append_one(text.substr(begin, end - begin), scratch);
      word = end;
    });
    flush(text.size());
  }

  const Pipeline& pipeline_;
  const BertNormalizer& normalizer_;
  Ascii ascii_[128];
};

}  // namespace

std::unique_ptr<IdEncoder> make_bert_id_encoder(const Pipeline& pipeline) {
  return std::make_unique<BertIdEncoder>(pipeline);
}

}  // namespace sluice::text
