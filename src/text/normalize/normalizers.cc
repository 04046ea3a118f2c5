#include <utility>

#include "text/normalize/normalizer.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

// A function of the text as a normalizer.
template <class Apply>
class Function final : public Normalizer {
 public:
  Function(Apply function, bool ascii) : apply_(std::move(function)), keeps_ascii_(ascii) {}
  void apply(Normalized& text) const override { apply_(text); }
  bool keeps_ascii() const noexcept override { return keeps_ascii_; }

 private:
  Apply apply_;
  bool keeps_ascii_;
};

enum class Ascii { stays, changes };

template <class Apply>
NormalizerPtr make(Ascii ascii, Apply apply) {
  return std::make_shared<Function<Apply>>(std::move(apply), ascii == Ascii::stays);
}

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) keeps_ascii_ = keeps_ascii_ && part->keeps_ascii();
  }
  void apply(Normalized& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }
  bool keeps_ascii() const noexcept override { return keeps_ascii_; }

 private:
  std::vector<NormalizerPtr> parts_;
  bool keeps_ascii_ = true;
};

// What Google's NMT data has for control characters and odd spaces.
bool nmt_keeps(char32_t c) {
  return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F);
}

char32_t nmt_mapped(char32_t c) {
  switch (c) {
    case 0x09:
    case 0x0A:
    case 0x0C:
    case 0x0D:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x2581:
    case 0xFEFF:
    case 0xFFFD: return ' ';
    default: return c >= 0x200B && c <= 0x200F ? U' ' : c;
  }
}

void apply_nmt(Normalized& text) {
  filter(text, nmt_keeps);
  Rewriter out(text);
  for_each_code_point(text.text,
                      [&](char32_t c, std::size_t, std::size_t) { out.replace(nmt_mapped(c)); });
  out.finish();
}

struct ByteCharacters {
  char32_t of[256];
  int back[0x200];
  ByteCharacters() {
    for (int& byte : back) byte = -1;
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool shown =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      of[byte] = shown ? byte : next++;
      back[of[byte]] = static_cast<int>(byte);
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters all;
  return all;
}

}  // namespace

char32_t byte_character(unsigned char byte) noexcept { return byte_characters().of[byte]; }

int byte_of_character(char32_t c) noexcept { return c < 0x200 ? byte_characters().back[c] : -1; }

void to_byte_characters(Normalized& text) {
  Rewriter out(text);
  const std::string old = text.text;
  for (std::size_t at = 0; at < old.size(); ++at) {
    const char32_t c = byte_character(static_cast<unsigned char>(old[at]));
    is_tail_byte(old[at]) ? out.add(c) : out.replace(c);
  }
  out.finish();
}

void to_lower(Normalized& text) {
  Rewriter out(text);
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) {
    const auto lower = lower_of(c);
    out.replace(lower.empty() ? c : lower[0]);
    for (std::size_t i = 1; i < lower.size(); ++i) out.add(lower[i]);
  });
  out.finish();
}

NormalizerPtr make_form(Form form) {
  return make(Ascii::stays, [form](Normalized& text) { to_form(text, form); });
}

NormalizerPtr make_lowercase() { return make(Ascii::changes, to_lower); }

NormalizerPtr make_strip_accents() {
  return make(Ascii::stays,
              [](Normalized& text) { filter(text, [](char32_t c) { return !is(c, kMark); }); });
}

NormalizerPtr make_strip(bool left, bool right) {
  return make(Ascii::changes, [=](Normalized& text) { strip(text, left, right); });
}

NormalizerPtr make_replace(Pattern pattern, std::string by) {
  return make(Ascii::changes, [pattern = std::move(pattern), by = std::move(by)](Normalized& text) {
    std::vector<Match> matches;
    pattern.find(text.text, matches);
    replace_all(text, matches, by);
  });
}

NormalizerPtr make_prepend(std::string by) {
  return make(Ascii::changes, [by = std::move(by)](Normalized& text) { prepend(text, by); });
}

NormalizerPtr make_nmt() { return make(Ascii::changes, apply_nmt); }

NormalizerPtr make_byte_level() { return make(Ascii::changes, to_byte_characters); }

NormalizerPtr make_sequence(std::vector<NormalizerPtr> parts) {
  return std::make_shared<Sequence>(std::move(parts));
}

}  // namespace sluice::text
