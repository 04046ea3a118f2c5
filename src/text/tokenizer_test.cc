#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/sanitized_for_tests.h"
#include "text/small_tokenizers_for_tests.h"

namespace sluice::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> shown_spans(const Encoding& encoding) {
  std::vector<std::string> all;
  for (const Span& span : encoding.offsets)
    all.push_back(std::to_string(span.begin) + "-" + std::to_string(span.end));
  return all;
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "nothing was refused";
}

TEST(Tokenizer, SplitsWordsIntoTheLongestKnownPieces) {
  const auto encoding = small_bert().encode("GPUs are shared.");
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "gpu", "##s", "are", "shared", ".", "[SEP]"));
  EXPECT_THAT(encoding.ids, ElementsAre(2, 5, 52, 7, 8, 12, 3));
  EXPECT_THAT(encoding.special, ElementsAre(1, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(shown_spans(encoding),
              ElementsAre("0-0", "0-3", "3-4", "5-8", "9-15", "15-16", "0-0"));
  EXPECT_THAT(encoding.words, ElementsAre(std::nullopt, 0, 0, 1, 2, 3, std::nullopt));
}

TEST(Tokenizer, OffsetsCountCharactersOfTheTextAsItCame) {
  const auto tokenizer = small_bert();
  const std::string text = "Na\xC3\xAFve \xE4\xB8\xAD";
  EXPECT_THAT(tokenizer.encode(text).tokens,
              ElementsAre("[CLS]", "na", "##ive", "\xE4\xB8\xAD", "[SEP]"));
  EXPECT_THAT(shown_spans(tokenizer.encode(text)), ElementsAre("0-0", "0-2", "2-5", "6-7", "0-0"));
  EXPECT_THAT(shown_spans(tokenizer.encode(text, {.offsets = OffsetUnit::bytes})),
              ElementsAre("0-0", "0-2", "2-6", "7-10", "0-0"));
}

TEST(Tokenizer, OffsetsOfBytesOfAPrefixOrSuffixLieInTheText) {
  const std::string text =
      "\xC3\xA9"
      "a b\xC3\xA9";
  const auto spans = [&](std::string_view prefix, std::string_view suffix) {
    return shown_spans(of_json(small_byte_fallback_json(prefix, suffix)).encode(text));
  };
  EXPECT_THAT(spans("", ""), ElementsAre("0-1", "0-1", "1-2", "3-4", "4-5", "4-5"));
  EXPECT_THAT(spans("", "|"), ElementsAre("0-1", "0-1", "1-2", "2-2", "3-4", "4-5", "4-5", "5-5"));
  EXPECT_THAT(spans("#", ""), ElementsAre("0-1", "0-1", "1-1", "1-2", "3-4", "4-4", "4-5", "4-5"));
}

TEST(Tokenizer, PairsHaveTypeIds) {
  const auto encoding = small_bert().encode_pair("gpus", "are");
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "gpu", "##s", "[SEP]", "are", "[SEP]"));
  EXPECT_THAT(encoding.type_ids, ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(Tokenizer, TruncatesWithAStrideAndKeepsTheRestAsOverflow) {
  const EncodeOptions options{.truncation = Truncation{.max_length = 5, .stride = 1}};
  const auto encoding = small_bert().encode("gpus are shared.", options);
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "gpu", "##s", "are", "[SEP]"));
  ASSERT_EQ(encoding.overflow.size(), 1u);
  EXPECT_THAT(encoding.overflow[0].tokens, ElementsAre("[CLS]", "are", "shared", ".", "[SEP]"));
}

// The parts of a text that stands twice in the result are combined: n of them become n * n.
TEST(Tokenizer, RefusesOverflowOutOfProportion) {
  const auto with = [](std::string_view pieces) {
    return of_json(R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                           "single": [)" +
                   std::string(pieces) + "]}}");
  };
  const std::string a = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const EncodeOptions options{.truncation = Truncation{.max_length = 1}};
  const auto twice = with(a + "," + a);
  EXPECT_THAT(twice.encode("a a a").ids, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(twice.encode("a a a", options).overflow.size(), 2u + 2u + 2u * 2u);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a ";
  EXPECT_EQ(with(a).encode(text, options).overflow.size(), 399u);
  EXPECT_THAT(refusal([&] { with(a + "," + a + "," + a).encode(text, options); }),
              HasSubstr("the parts that overflow have more than"));
  EXPECT_THAT(refusal([&] { with(a + "," + a + "," + a + "," + a + "," + a); }),
              HasSubstr("post_processor.single[4]: uses a text again, more than 4 times"));
  while (text.size() < 20000) text += text;
  const Truncation slow{.max_length = 5000, .stride = 4999};
  EXPECT_THAT(refusal([&] { with(a).encode(text, {.truncation = slow}); }),
              HasSubstr("with a smaller stride"));
}

TEST(Tokenizer, RefusesTemplatesThatAddTooMuch) {
  const auto why = [](std::size_t pieces, std::size_t ids, std::size_t bytes) {
    const Json piece{{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}};
    const Json special{{"id", "x"},
                       {"ids", std::vector<int>(ids, 0)},
                       {"tokens", std::vector<std::string>(ids, std::string(bytes, 'x'))}};
    const Json file{{"model", {{"type", "WordLevel"}, {"vocab", {{"<unk>", 0}}}}},
                    {"post_processor",
                     {{"type", "TemplateProcessing"},
                      {"single", std::vector<Json>(pieces, piece)},
                      {"pair", Json::array()},
                      {"special_tokens", {{"x", special}}}}}};
    return refusal([&] { of_json(file.dump()); });
  };
  EXPECT_EQ(why(256, 16, 256), "nothing was refused");
  EXPECT_THAT(why(1, 4097, 1), HasSubstr("special_tokens.x.ids: has 4097 ids"));
  EXPECT_THAT(why(3, 2000, 1), HasSubstr("post_processor.single: adds more than 4096 special"));
  EXPECT_THAT(why(257, 0, 1), HasSubstr("post_processor.single: has 257 pieces"));
  EXPECT_THAT(why(1, 1, 257), HasSubstr("special_tokens.x.tokens[0]: has 257 bytes"));
}

// The tokens of short texts may not be megabytes long each.
TEST(Tokenizer, RefusesTokensOutOfProportion) {
  const std::string unknown(300000, 'u');
  const Json model{{"type", "WordLevel"}, {"vocab", {{unknown, 0}}}, {"unk_token", unknown}};
  const auto tokenizer =
      of_json(Json{{"model", model}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}}.dump());
  EXPECT_EQ(tokenizer.encode("a b c").tokens.size(), 3u);
  EXPECT_THAT(refusal([&] { tokenizer.encode("a b c d"); }), HasSubstr("correct the file's"));
  const std::vector<std::uint32_t> ids(4);
  EXPECT_THAT(refusal([&] { tokenizer.decode(ids); }), HasSubstr("correct the file's"));
}

TEST(Tokenizer, RefusesALengthWithoutRoomAndAStrideThatDoesNotMove) {
  const auto tokenizer = small_bert();
  const auto with = [&](Truncation truncation) {
    return refusal([&] { tokenizer.encode("gpus are shared.", {.truncation = truncation}); });
  };
  EXPECT_THAT(with({.max_length = 1}), HasSubstr("leaves no room for 2 special tokens"));
  EXPECT_THAT(with({.max_length = 4, .stride = 2}), HasSubstr("the stride of 2 is not less"));
}

TEST(Tokenizer, FindsAddedTokensBeforeAnythingElse) {
  EXPECT_THAT(small_bert().encode("a[MASK]b", {.add_special = false}).tokens,
              ElementsAre("a", "[MASK]", "b"));
  const auto roberta = of_json(small_byte_bpe_json());
  EXPECT_THAT(shown_spans(roberta.encode("the <mask>", {.add_special = false})),
              ElementsAre("0-3", "4-10"));
}

TEST(Tokenizer, IllFormedTextCountsAsReplacementCharacters) {
  const auto tokenizer = of_json(small_byte_bpe_json());
  EXPECT_EQ(tokenizer.encode("a\xFF\xE2\x82z").ids,
            tokenizer.encode("a\xEF\xBF\xBD\xEF\xBF\xBDz").ids);
}

TEST(Tokenizer, DecodesWhatItEncodes) {
  const auto bert = small_bert(), byte_level = of_json(small_byte_bpe_json());
  EXPECT_EQ(bert.decode(bert.encode("GPUs are shared.").ids), "gpus are shared.");
  EXPECT_EQ(bert.decode(bert.encode("gpu").ids, false), "[CLS] gpu [SEP]");
  const std::string text = " the \xE4\xB8\xAD\xF0\x9F\x98\x80 in";
  EXPECT_EQ(byte_level.decode(byte_level.encode(text).ids), text);
}

// The fast paths and their caches, beside encode().
TEST(Tokenizer, BatchesHaveTheIdsOfSingleTexts) {
  std::mt19937 random(7);
  for (const auto& tokenizer :
       {small_bert(), of_json(small_byte_bpe_json()), of_json(small_unigram_json())}) {
    std::vector<std::string> texts;
    for (int i = 0; i < 3000; ++i) texts.push_back(odd_text(random));
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const auto batch = tokenizer.encode_batch(views, {.threads = 3});
    ASSERT_EQ(batch.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<std::uint32_t> ids(
          batch.ids.begin() + static_cast<std::ptrdiff_t>(batch.cu_seqlens[i]),
          batch.ids.begin() + static_cast<std::ptrdiff_t>(batch.cu_seqlens[i + 1]));
      ASSERT_EQ(ids, tokenizer.encode(texts[i]).ids)
          << Json(texts[i]).dump(-1, ' ', true, Json::error_handler_t::replace);
    }
  }
}

TEST(Tokenizer, TruncatedBatchesHaveTheIdsOfSingleTexts) {
  std::mt19937 random(8);
  for (const auto& tokenizer :
       {small_bert(), of_json(small_byte_bpe_json()), of_json(small_unigram_json())})
    for (const auto side : {TruncationSide::right, TruncationSide::left})
      for (int i = 0; i < 500; ++i) {
        const std::string text = odd_text(random);
        const Truncation truncation{.max_length = 2 + random() % 9, .side = side};
        const std::string_view view = text;
        EXPECT_EQ(tokenizer.encode_batch({&view, 1}, {.truncation = truncation}).ids,
                  tokenizer.encode(text, {.truncation = truncation}).ids);
      }
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
  const auto tokenizer = small_bert();
  const auto expected = tokenizer.encode("GPUs are shared, always.").ids;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const std::string_view text = "GPUs are shared, always.";
      for (int k = 0; k < 200; ++k) EXPECT_EQ(tokenizer.encode_batch({&text, 1}).ids, expected);
    });
}

// A word of megabytes takes time in proportion, not its square.
TEST(Tokenizer, LongWordsTakeLinearTime) {
  const auto bert = small_bert(), bpe = of_json(small_byte_bpe_json()),
             unigram = of_json(small_unigram_json());
  const auto from = Steady::now();
  for (const char* part : {"the", "x", "\xCC\x81", "<", "in er", "\xE2\x80\x8D"}) {
    std::string text;
    while (text.size() < 400000) text += part;
    const std::string_view view = text;
    for (const auto& tokenizer : {bert, bpe, unigram}) {
      const auto ids = tokenizer.encode_batch({&view, 1}).ids;
      EXPECT_EQ(ids, tokenizer.encode(text).ids);
    }
  }
  EXPECT_LT(seconds_between(from, Steady::now()), 60 * kPatience);
}

TEST(Tokenizer, OpensFoldersAndFilesByWhatTheyAre) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "tokenizer_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "vocab.txt") << small_vocab();
  EXPECT_EQ(Tokenizer::open(folder).encode("GPU").ids, small_bert().encode("gpu").ids);
  std::ofstream(folder / "tokenizer_config.json") << R"({"do_lower_case": false})";
  EXPECT_NE(Tokenizer::open(folder).encode("GPU").ids, small_bert().encode("gpu").ids);
  std::ofstream(folder / "tokenizer.json") << small_unigram_json();
  EXPECT_EQ(Tokenizer::open(folder).encode("the").ids,
            of_json(small_unigram_json()).encode("the").ids);
  std::filesystem::remove_all(folder);
  EXPECT_THAT(refusal([&] { Tokenizer::open(folder / "vocab.txt"); }), HasSubstr("cannot read"));
}

TEST(Tokenizer, BadFilesAreRefusedByFileAndField) {
  const auto why = [](std::string_view json) { return refusal([&] { of_json(json); }); };
  EXPECT_EQ(why("{}"), "tokenizer.json: has no model");
  EXPECT_EQ(why(R"({"model": {"type": "Neural"}})"),
            "tokenizer.json: model: the type 'Neural' is not supported");
  EXPECT_EQ(why(R"({"model": {"type": "WordPiece", "vocab": {"a": -1}}})"),
            "tokenizer.json: model.vocab.a: must be an integer from 0 to 16777215");
  EXPECT_EQ(why(R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})"),
            "tokenizer.json: model: the unknown token '[UNK]' is not in the vocabulary");
  EXPECT_EQ(why(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})"),
            "tokenizer.json: model: merge 0: 'b' is not in the vocabulary");
  const std::string model = R"({"model": {"type": "WordLevel", "vocab": {"<unk>": 0}}, )";
  EXPECT_EQ(
      why(model + R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Upper"}]}})"),
      "tokenizer.json: normalizer.normalizers[0].type: 'Upper' is not supported");
  EXPECT_THAT(
      why(model +
          R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?<=a)b"}, "behavior": "Isolated"}})"),
      HasSubstr("tokenizer.json: pre_tokenizer.pattern: the regular expression '(?<=a)b' is not "
                "supported"));
  EXPECT_EQ(refusal([] { parse_vocab_txt("[UNK]\n[SEP]\n", "v.txt", {}); }),
            "v.txt: has no token [CLS]");
  EXPECT_THAT(refusal([] { parse_sentencepiece("\x0a\xff", "m.model"); }), HasSubstr("m.model: "));
}

}  // namespace
}  // namespace sluice::text
