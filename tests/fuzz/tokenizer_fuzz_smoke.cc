// A short, repeatable run of tokenizer_fuzz.cc.
#include "smoke.h"
#include "text/small_tokenizers_for_tests.h"

int main() {
  using namespace sluice;
  const std::string wordpiece =
      R"({"truncation": {"max_length": 9, "stride": 2, "strategy": "LongestFirst"},
          "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
            {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits"},
            {"type": "Split", "pattern": {"Regex": "[^\\s\\p{L}]+|\\s+(?!\\S)|\\s+"},
             "behavior": "MergedWithNext", "invert": false}]},
          "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "the": 1, "##s": 2}},
          "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[UNK]": {"id": "[UNK]", "ids": [0], "tokens": ["[UNK]"]}}},
          "decoder": {"type": "Sequence", "decoders": [{"type": "WordPiece"}, {"type": "Fuse"},
            {"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}})";
  const std::vector<std::string> seeds{wordpiece, text::small_unigram_json(),
                                       text::small_byte_bpe_json(),
                                       text::small_byte_fallback_json("##", "</w>")};
  return fuzz::run("tokenizer_fuzz_smoke", seeds,
                   {.variants = 1500,
                    .alphabet = "{}[]\",:0123456789\\",
                    .fragments = {"null", "\"NFKC\"", "\"Metaspace\"", "\"BPE\"", "-1", "1e999",
                                  "\"\"", "[]", "16777216", "\"ByteLevel\"", "\"Sequence\""},
                    .runs = 1});
}
