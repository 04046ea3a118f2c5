#include "text/normalize/normalizer.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

void clean(Normalized& text) {
  filter(text, [](char32_t c) { return !is(c, kNotText); });
  Rewriter out(text);
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) {
    out.replace(is(c, kWhitespace) ? U' ' : c);
  });
  out.finish();
}

// An ideograph is a word of its own.
void space_chinese(Normalized& text) {
  Rewriter out(text);
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) {
    if (!is_chinese(c)) return out.replace(c);
    out.replace(U' ');
    out.add(c);
    out.add(U' ');
  });
  out.finish();
}

}  // namespace

void BertNormalizer::apply(Normalized& text) const {
  const bool ascii = is_ascii(text.text);
  if (options_.clean_text) clean(text);
  if (options_.chinese_chars && !ascii) space_chinese(text);
  if (options_.strip_accents && !ascii) {
    to_form(text, Form::nfd);
    filter(text, [](char32_t c) { return !is(c, kNonspacing); });
  }
  if (options_.lowercase) to_lower(text);
}

}  // namespace sluice::text
