// Small tokenizer files, one of each kind.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <string_view>

#include "text/io/read.h"
#include "text/tokenizer.h"

namespace sluice::text {

inline std::string small_vocab() {
  std::string lines =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngpu\n##s\nare\nshared\n##d\nna\n##ive\n.\n,"
      "\n\xE4\xB8\xAD\n";
  for (char c = 'a'; c <= 'z'; ++c) lines += std::string(1, c) + "\n##" + c + "\n";
  return lines;
}

inline Tokenizer small_bert() { return Tokenizer(parse_vocab_txt(small_vocab(), "vocab.txt", {})); }

inline std::string small_byte_bpe_json() {
  std::string vocab;
  int id = 0;
  const auto add = [&](const std::string& token) {
    vocab += (id > 0 ? "," : "") + Json(token).dump() + ":" + std::to_string(id);
    ++id;
  };
  add("<s>"), add("</s>");
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, byte_character(static_cast<unsigned char>(byte)));
    add(token);
  }
  for (const char* token : {"\xC4\xA0t", "he", "\xC4\xA0the", "in", "er"}) add(token);
  return R"({"model": {"type": "BPE", "vocab": {)" + vocab +
         "}, \"merges\": [\"\xC4\xA0 t\", \"h e\", \"\xC4\xA0t he\", \"i n\", \"e r\"]}," +
         R"("normalizer": {"type": "NFC"},
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
           "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                              "trim_offsets": true, "add_prefix_space": true},
           "decoder": {"type": "ByteLevel"},
           "added_tokens": [{"id": 0, "content": "<s>", "special": true},
                            {"id": 1, "content": "</s>", "special": true},
                            {"id": 263, "content": "   ", "normalized": true},
                            {"id": 264, "content": "<mask>", "lstrip": true, "special": true}]})";
}

inline std::string small_unigram_json() {
  return R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["\u2581", -2],
             ["\u2581the", -3], ["the", -4], ["\u2581in", -3.5], ["t", -5], ["h", -5], ["e", -5],
             ["i", -5], ["n", -5], ["er", -4.5], ["r", -6]]},
           "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"},
             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
           "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"},
           "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"},
           "added_tokens": [{"id": 0, "content": "<unk>", "special": true}]})";
}

// A and b, and a token for each byte of what else there is, a prefix and a suffix included.
inline std::string small_byte_fallback_json(std::string_view prefix, std::string_view suffix) {
  Json vocab{{"a", 0}, {"b", 1}};
  for (unsigned byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 2 + byte;
  const Json model{{"type", "BPE"},
                   {"vocab", vocab},
                   {"merges", Json::array()},
                   {"byte_fallback", true},
                   {"end_of_word_suffix", suffix},
                   {"continuing_subword_prefix", prefix}};
  return Json{{"model", model}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}}.dump();
}

inline Tokenizer of_json(std::string_view json) {
  return Tokenizer(parse_tokenizer_json(json, "tokenizer.json"));
}

inline constexpr std::string_view kOddParts[] = {
    "the",
    "in",
    "er",
    "Gpus",
    "shared",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\t",
    "\r\n",
    "\x0b",
    "\x01",
    "'s",
    "n't",
    ".",
    ",",
    "[MASK]",
    "<mask>",
    "<s>",
    "[",
    "<",
    "\xC3\xA9",
    "e\xCC\x81",
    "\xCC\x88",
    "\xC2\xA0",
    "\xE3\x80\x80",
    "\xE2\x80\xA8",
    "\xE4\xB8\xAD",
    "\xF0\x9F\x98\x80",
    "\xE2\x80\x8D",
    "\xEF\xBF\xBD",
    "\xFF",
    "\xC3",
    "\xE2\x82",
    "\xF0\x9F",
    "\xED\xA0\x80",
    "1",
    "42",
    "\xC4\xB0",
    "internationalization",
    "\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82"};

// Bytes, words, marks, white space of all kinds and parts of added tokens, in any order.
inline std::string odd_text(std::mt19937& random) {
  std::string text;
  for (auto parts = random() % 24; parts > 0; --parts) {
    if (random() % 8 == 0)
      text += static_cast<char>(random());
    else
      text += kOddParts[random() % std::size(kOddParts)];
  }
  return text;
}

}  // namespace sluice::text
