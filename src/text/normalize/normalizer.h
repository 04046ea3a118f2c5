// The normalizers of a tokenizer file. Each is immutable; any number of threads may use it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalize/normalized.h"
#include "text/pattern/pattern.h"

namespace sluice::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(Normalized& text) const = 0;
  // Whether ASCII text stays as it is.
  virtual bool keeps_ascii() const noexcept { return false; }
};

using NormalizerPtr = std::shared_ptr<const Normalizer>;

struct BertOptions {
  bool clean_text = true, chinese_chars = true, strip_accents = true, lowercase = true;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {}
  void apply(Normalized& text) const override;
  const BertOptions& options() const noexcept { return options_; }

 private:
  BertOptions options_;
};

enum class Form { nfc, nfd, nfkc, nfkd };
void to_form(Normalized& text, Form form);
void to_lower(Normalized& text);
// Each byte of the text as the character that GPT-2 writes for it.
void to_byte_characters(Normalized& text);
char32_t byte_character(unsigned char byte) noexcept;
// The byte that c stands for, or -1.
int byte_of_character(char32_t c) noexcept;

NormalizerPtr make_form(Form form);
NormalizerPtr make_lowercase();
NormalizerPtr make_strip_accents();
NormalizerPtr make_strip(bool left, bool right);
NormalizerPtr make_replace(Pattern pattern, std::string by);
NormalizerPtr make_prepend(std::string text);
NormalizerPtr make_nmt();
NormalizerPtr make_byte_level();
NormalizerPtr make_sequence(std::vector<NormalizerPtr> parts);

// SentencePiece's precompiled map of characters: a double array of keys, and their texts. Throws
// invalid_argument when it is not one.
NormalizerPtr make_charsmap(std::string_view blob);

}  // namespace sluice::text
