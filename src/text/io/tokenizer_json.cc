#include <fmt/format.h>

#include <array>

#include "base/nearest.h"
#include "base/printable.h"
#include "text/io/read.h"

namespace sluice::text {
namespace {

// A kind of part, by the name it has in files.
template <class Part>
struct Kind {
  std::string_view name;
  Part (*read)(const Field&);
};

template <class Part, std::size_t N>
Part read_kind(const Field& field, const std::array<Kind<Part>, N>& kinds) {
  const std::string type = field.at("type").text();
  for (const auto& kind : kinds)
    if (kind.name == type) return kind.read(field);
  field.at("type").refuse(in_quotes(type) + " is not supported");
}

template <class Part, class Read>
std::vector<Part> read_list(const Field& field, std::string_view name, Read read) {
  std::vector<Part> parts;
  field.at(name).each_item([&](const Field& item) { parts.push_back(read(item)); });
  return parts;
}

// ---- normalizers -----------------------------------------------------------------

NormalizerPtr read_bert_normalizer(const Field& field) {
  BertOptions options;
  options.clean_text = field.boolean("clean_text", true);
  options.chinese_chars = field.boolean("handle_chinese_chars", true);
  options.lowercase = field.boolean("lowercase", true);
  options.strip_accents = field.boolean("strip_accents", options.lowercase);
  return std::make_shared<BertNormalizer>(options);
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string from_base64(const Field& field) {
  std::string_view text = field.text();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) field.refuse("is not Base64");
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

NormalizerPtr read_charsmap(const Field& field) {
  const Field map = field.at("precompiled_charsmap");
  return map.with_place([&] { return make_charsmap(from_base64(map)); });
}

constexpr std::array<Kind<NormalizerPtr>, 14> kNormalizers = {{
    {"BertNormalizer", read_bert_normalizer},
    {"NFC", [](const Field&) { return make_form(Form::nfc); }},
    {"NFD", [](const Field&) { return make_form(Form::nfd); }},
    {"NFKC", [](const Field&) { return make_form(Form::nfkc); }},
    {"NFKD", [](const Field&) { return make_form(Form::nfkd); }},
    {"Lowercase", [](const Field&) { return make_lowercase(); }},
    {"StripAccents", [](const Field&) { return make_strip_accents(); }},
    {"Strip",
     [](const Field& f) {
       return make_strip(f.at("strip_left").boolean(), f.at("strip_right").boolean());
     }},
    {"Replace",
     [](const Field& f) {
       return make_replace(read_pattern(f.at("pattern")), f.at("content").text());
     }},
    {"Prepend", [](const Field& f) { return make_prepend(f.at("prepend").text()); }},
    {"Precompiled", read_charsmap},
    {"Nmt", [](const Field&) { return make_nmt(); }},
    {"ByteLevel", [](const Field&) { return make_byte_level(); }},
    {"Sequence",
     [](const Field& f) {
       return make_sequence(read_list<NormalizerPtr>(f, "normalizers", read_normalizer));
     }},
}};

// ---- pre-tokenizers --------------------------------------------------------------

Behavior read_behavior(const Field& field) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  for (const auto& [name, behavior] : kNames)
    if (field.text() == name) return behavior;
  field.refuse(in_quotes(field.text()) + " is not a behavior");
}

PrependScheme read_prepend_scheme(const Field& field) {
  const bool adds = field.boolean("add_prefix_space", true);
  const auto scheme = field.find("prepend_scheme");
  if (!scheme) return adds ? PrependScheme::always : PrependScheme::never;
  if (scheme->text() == "first") return PrependScheme::first;
  if (scheme->text() == "never") return PrependScheme::never;
  if (scheme->text() == "always") return PrependScheme::always;
  scheme->refuse("must be first, never or always");
}

PreTokenizerPtr read_metaspace(const Field& field) {
  return make_metaspace(field.at("replacement").code_point(), read_prepend_scheme(field),
                        field.boolean("split", true));
}

PreTokenizerPtr read_byte_level(const Field& field) {
  return std::make_shared<ByteLevelPreTokenizer>(
      ByteLevelOptions{field.boolean("add_prefix_space", true), field.boolean("use_regex", true)});
}

PreTokenizerPtr read_punctuation(const Field& field) {
  const auto behavior = field.find("behavior");
  return make_punctuation(behavior ? read_behavior(*behavior) : Behavior::isolated);
}

constexpr std::array<Kind<PreTokenizerPtr>, 10> kPreTokenizers = {{
    {"BertPreTokenizer", [](const Field&) { return make_bert_words(); }},
    {"Whitespace", [](const Field&) { return make_whitespace(); }},
    {"WhitespaceSplit", [](const Field&) { return make_whitespace_split(); }},
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"Punctuation", read_punctuation},
    {"Digits", [](const Field& f) { return make_digits(f.boolean("individual_digits", false)); }},
    {"CharDelimiterSplit",
     [](const Field& f) { return make_delimiter(f.at("delimiter").code_point()); }},
    {"Split",
     [](const Field& f) {
       return make_split(read_pattern(f.at("pattern")), read_behavior(f.at("behavior")),
                         f.boolean("invert", false));
     }},
    {"Sequence",
     [](const Field& f) {
       return make_word_sequence(
           read_list<PreTokenizerPtr>(f, "pretokenizers", read_pre_tokenizer));
     }},
}};

// ---- decoders --------------------------------------------------------------------

DecoderPtr read_strip_decoder(const Field& field) {
  constexpr std::uint64_t kMost = 1 << 20;
  return make_strip_decoder(field.at("content").code_point(), field.at("start").integer(kMost),
                            field.at("stop").integer(kMost));
}

constexpr std::array<Kind<DecoderPtr>, 9> kDecoders = {{
    {"WordPiece",
     [](const Field& f) {
       return make_wordpiece_decoder(f.text("prefix", "##"), f.boolean("cleanup", true));
     }},
    {"ByteLevel", [](const Field&) { return make_byte_level_decoder(); }},
    {"Metaspace",
     [](const Field& f) {
       return make_metaspace_decoder(f.at("replacement").code_point(),
                                     read_prepend_scheme(f) != PrependScheme::never);
     }},
    {"BPEDecoder", [](const Field& f) { return make_bpe_decoder(f.text("suffix", "</w>")); }},
    {"ByteFallback", [](const Field&) { return make_byte_fallback_decoder(); }},
    {"Fuse", [](const Field&) { return make_fuse_decoder(); }},
    {"Strip", read_strip_decoder},
    {"Replace",
     [](const Field& f) {
       return make_replace_decoder(read_pattern(f.at("pattern")), f.at("content").text());
     }},
    {"Sequence",
     [](const Field& f) {
       return make_decoder_sequence(read_list<DecoderPtr>(f, "decoders", read_decoder));
     }},
}};

// ---- the file --------------------------------------------------------------------

AddedToken read_added_token(const Field& field) {
  AddedToken token;
  token.content = field.at("content").text();
  token.single_word = field.boolean("single_word", false);
  token.lstrip = field.boolean("lstrip", false);
  token.rstrip = field.boolean("rstrip", false);
  token.special = field.boolean("special", false);
  token.normalized = field.boolean("normalized", !token.special);
  return token;
}

Truncation read_truncation(const Field& field) {
  Truncation truncation;
  truncation.max_length = field.at("max_length").integer(kMaxTokenId);
  truncation.stride = field.at("stride").integer(kMaxTokenId);
  const std::string strategy = field.text("strategy", "LongestFirst");
  if (strategy == "OnlyFirst") truncation.strategy = TruncationStrategy::only_first;
  if (strategy == "OnlySecond") truncation.strategy = TruncationStrategy::only_second;
  if (field.text("direction", "Right") == "Left") truncation.side = TruncationSide::left;
  return truncation;
}

}  // namespace

Pattern read_pattern(const Field& field) {
  return field.with_place([&] {
    if (const auto text = field.find("String")) return Pattern::literal(text->text());
    return Pattern::regex(field.at("Regex").text());
  });
}

NormalizerPtr read_normalizer(const Field& field) { return read_kind(field, kNormalizers); }
PreTokenizerPtr read_pre_tokenizer(const Field& field) { return read_kind(field, kPreTokenizers); }
DecoderPtr read_decoder(const Field& field) { return read_kind(field, kDecoders); }

Pipeline parse_tokenizer_json(std::string_view text, std::string_view name) {
  const Json document = parse_json_object(text, name);
  const Field all(document, std::string(name), true);
  Pipeline pipeline;
  pipeline.model = read_model(all.at("model"));
  if (const auto field = all.find("normalizer")) pipeline.normalizer = read_normalizer(*field);
  if (const auto field = all.find("pre_tokenizer"))
    pipeline.pre_tokenizer = read_pre_tokenizer(*field);
  if (const auto field = all.find("post_processor")) pipeline.processor = read_processor(*field);
  if (const auto field = all.find("decoder")) pipeline.decoder = read_decoder(*field);
  if (const auto field = all.find("truncation")) pipeline.truncation = read_truncation(*field);
  if (const auto field = all.find("added_tokens"))
    field->each_item([&](const Field& item) {
      item.with_place([&] {
        pipeline.added.add(read_added_token(item), pipeline.model->vocabulary(),
                           pipeline.normalizer.get());
      });
    });
  return pipeline;
}

}  // namespace sluice::text
