// Byte-level BPE by chunks: a word with the space before it. A run of white space is cut before its
// last character when a word follows, so that chunks do not depend on each other, unless white
// space beyond ASCII is at the edge of one.
#include "text/id_encoder.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class ByteLevelIdEncoder final : public IdEncoder {
 public:
  explicit ByteLevelIdEncoder(const Pipeline& pipeline)
      : pipeline_(pipeline),
        adds_space_(static_cast<const ByteLevelPreTokenizer&>(*pipeline.pre_tokenizer)
                        .options()
                        .add_prefix_space) {}

  void append(std::string_view text, IdScratch& scratch, std::size_t enough) const override {
    text = well_formed(text, scratch.well_formed);
    const std::size_t limit =
        enough + scratch.ids.size() < enough ? enough : enough + scratch.ids.size();
    pipeline_.added.each_part(
        text, false, [&](std::size_t begin, std::size_t end, std::optional<std::uint32_t> token) {
          if (token)
            scratch.ids.push(*token);
          else
            append_raw(text.substr(begin, end - begin), scratch, limit);
        });
  }

 private:
  void append_raw(std::string_view text, IdScratch& scratch, std::size_t limit) const {
    if (pipeline_.normalizer && !is_ascii(text)) {
      scratch.part.assign(text, false);
      pipeline_.normalizer->apply(scratch.part);
      text = scratch.part.text;
    }
    pipeline_.added.each_part(
        text, true, [&](std::size_t begin, std::size_t end, std::optional<std::uint32_t> token) {
          if (token)
            scratch.ids.push(*token);
          else
            append_part(text.substr(begin, end - begin), scratch, limit);
        });
  }

  void append_part(std::string_view text, IdScratch& scratch, std::size_t limit) const {
    if (scratch.ids.size() >= limit) return;
    scratch.padded.clear();
    if (adds_space_ && !text.starts_with(' ')) scratch.padded += ' ';
    scratch.padded += text;
    const std::size_t size = scratch.padded.size();
    scratch.padded.append(kPadding, ' ');
    const std::size_t begin = scratch.ids.size();
    const char* start = scratch.padded.data();
    if (append_chunks(start, start + size, scratch, limit)) return;
    scratch.ids.shorten(begin);
    append_words({start, size}, scratch);
  }

  // False when a chunk depends on what is beside it.
  bool append_chunks(const char* at, const char* end, IdScratch& scratch, std::size_t limit) const {
    while (at < end && scratch.ids.size() < limit) {
      if (is_space(*at) && (*at != ' ' || at + 1 == end || is_space(at[1]))) {
        at = append_spaces(at, end, scratch);
        continue;
      }
      std::size_t length = run_below_16(at, *at == ' ');
      if (at + length > end) length = static_cast<std::size_t>(end - at);
      if (length < 16 && (at + length == end || is_space(at[length]))) {
        if (!scratch.chunks.find(ShortKey::of_padded(at, length), scratch.ids) &&
            !append_new({at, length}, scratch))
          return false;
      } else {
        while (at + length < end && !is_space(at[length])) ++length;
        const std::string_view chunk(at, length);
        if (!scratch.chunks.find(chunk, scratch.ids) && !append_new(chunk, scratch)) return false;
      }
      at += length;
    }
    return true;
  }

  // A run of white space without the space that belongs to the next word; where the next begins.
  const char* append_spaces(const char* at, const char* end, IdScratch& scratch) const {
    const char* behind = at;
    while (behind < end && is_space(*behind)) ++behind;
    const char* last = behind < end ? behind - 1 : behind;
    if (at < last) append_one({at, static_cast<std::size_t>(last - at)}, scratch);
    if (last < behind && *last != ' ') {
      append_one({last, 1}, scratch);
      ++last;
    }
    return last;
  }

  bool append_new(std::string_view chunk, IdScratch& scratch) const {
    if (has_outer_space(chunk)) return false;
    const std::size_t begin = scratch.ids.size();
    append_words(chunk, scratch);
    scratch.chunks.insert(chunk, scratch.ids.from(begin));
    return true;
  }

  // White space beyond ASCII at the start, behind its space, or at the end.
  static bool has_outer_space(std::string_view chunk) {
    if (is_ascii(chunk)) return false;
    std::size_t at = chunk.starts_with(' ') ? 1 : 0;
    if (is(next_code_point(chunk, at), kSpace)) return true;
    std::size_t last = chunk.size() - 1;
    while (last > 0 && is_tail_byte(chunk[last])) --last;
    return is(next_code_point(chunk, last), kSpace);
  }

  void append_words(std::string_view text, IdScratch& scratch) const {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = gpt2_word_end(text, at);
      append_one(text.substr(at, end - at), scratch);
      at = end;
    }
  }

  void append_one(std::string_view word, IdScratch& scratch) const {
    append_word(*pipeline_.model, word, scratch, [&](std::string_view bytes) {
      scratch.word.clear();
      for (const char byte : bytes)
        append_utf8(scratch.word, byte_character(static_cast<unsigned char>(byte)));
      return std::string_view(scratch.word);
    });
  }

  const Pipeline& pipeline_;
  bool adds_space_;
};

}  // namespace

std::unique_ptr<IdEncoder> make_byte_level_id_encoder(const Pipeline& pipeline) {
  return std::make_unique<ByteLevelIdEncoder>(pipeline);
}

}  // namespace sluice::text
