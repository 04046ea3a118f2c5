#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "base/error.h"
#include "text/decode/decoder.h"
#include "text/id_cache.h"
#include "text/model/model.h"
#include "text/normalize/normalizer.h"
#include "text/pattern/pattern.h"
#include "text/pretokenize/pretokenizer.h"
#include "text/unicode/graphemes.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string normalized(const NormalizerPtr& normalizer, std::string_view text) {
  Normalized part;
  part.assign(text, true);
  normalizer->apply(part);
  EXPECT_EQ(part.text.size(), part.spans.size());
  return part.text;
}

std::vector<std::string> words(const PreTokenizerPtr& splitter, std::string_view text) {
  Pieces pieces;
  pieces.text.assign(text, true);
  pieces.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  splitter->apply(pieces);
  std::vector<std::string> all;
  for (const Piece& piece : pieces.pieces) all.emplace_back(pieces.view(piece));
  return all;
}

TEST(Unicode, IllFormedPartsAreReplacedAsRustAndPythonDo) {
  std::string store;
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(well_formed("a\xFF"
                        "b",
                        store),
            "a" + mark + "b");
  EXPECT_EQ(well_formed("\xE2\x82", store), mark);                    // cut
  EXPECT_EQ(well_formed("\xF0\x9F\x98x", store), mark + "x");         // cut
  EXPECT_EQ(well_formed("\xED\xA0\x80", store), mark + mark + mark);  // a surrogate
  EXPECT_EQ(well_formed("\xC0\xAF", store), mark + mark);             // overlong
  EXPECT_EQ(well_formed("\xF4\x90\x80\x80", store), mark + mark + mark + mark);
}

TEST(Unicode, ClassesAreThoseOfTheReference) {
  EXPECT_TRUE(is(0x3000, kWhitespace) && is(0x85, kWhitespace) && !is(0x200B, kWhitespace));
  EXPECT_TRUE(is(0x1, kNotText) && is(0xE000, kNotText) && is(0xFFFD, kNotText) &&
              !is('\n', kNotText));
  EXPECT_TRUE(is('$', kPunctuation) && !is('$', kAnyPunctuation) && is(0x2014, kAnyPunctuation));
  EXPECT_TRUE(is(0xBD, kNumeric) && is(0x4E00, kLetter) && is(0x301, kNonspacing));
}

TEST(Unicode, GraphemesJoinMarksHangulAndFlags) {
  const auto first = [](std::string_view text) { return grapheme_end(text, 0); };
  EXPECT_EQ(first("e\xCC\x81x"), 3u);
  EXPECT_EQ(first("\r\nx"), 2u);
  EXPECT_EQ(first("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8x"), 9u);             // L V T
  EXPECT_EQ(first("\xF0\x9F\x87\xA6\xF0\x9F\x87\xB7\xF0\x9F\x87\xA6"), 8u);  // one flag of two
  EXPECT_EQ(first("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBBx"), 11u);    // joined pictures
}

TEST(Normalizer, FormsComposeAndDecompose) {
  EXPECT_EQ(normalized(make_form(Form::nfd), "\xC3\xA9\xEA\xB0\x81"),
            "e\xCC\x81\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
  EXPECT_EQ(normalized(make_form(Form::nfc), "e\xCC\x81\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"),
            "\xC3\xA9\xEA\xB0\x81");
  EXPECT_EQ(normalized(make_form(Form::nfkc), "\xEF\xAC\x81\xC2\xBD"),
            "fi1\xE2\x81\x84"
            "2");
  EXPECT_EQ(normalized(make_form(Form::nfd), "a\xCC\x81\xCC\xA3"),
            "a\xCC\xA3\xCC\x81");  // in order of class
}

TEST(Normalizer, StripsReplacesAndPrepends) {
  EXPECT_EQ(normalized(make_strip(true, true), " \xE3\x80\x80 a b \n"), "a b");
  EXPECT_EQ(normalized(make_strip(false, true), "   "), "");
  EXPECT_EQ(normalized(make_replace(Pattern::regex(" {2,}"), " "), "a   b c"), "a b c");
  EXPECT_EQ(normalized(make_prepend("_"), "a"), "_a");
  EXPECT_EQ(normalized(make_prepend("_"), ""), "");
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "nothing was refused";
}

// Forty parts that double a text would make a terabyte of a letter.
TEST(Normalizer, MakesOfATextWhatIsInProportionOrRefuses) {
  const auto twice = make_replace(Pattern::literal("a"), "aa");
  const auto times = [](const NormalizerPtr& part, std::size_t count) {
    return make_sequence(std::vector<NormalizerPtr>(count, part));
  };
  EXPECT_EQ(normalized(times(twice, 16), "a").size(), std::size_t{1} << 16);
  const std::pair<NormalizerPtr, std::string_view> bad[] = {
      {twice, "a"}, {make_byte_level(), "\xC3\xA9"}, {make_prepend(std::string(30000, 'x')), "a"}};
  for (const auto& [part, text] : bad)
    EXPECT_THAT(refusal_of([&] { normalized(times(part, 40), text); }),
                HasSubstr("which is too much for its length"));
  std::string long_text(100000, 'a');  // longer texts may become longer
  EXPECT_EQ(normalized(times(twice, 6), long_text).size(), long_text.size() * 64);
  EXPECT_THAT(refusal_of([&] { normalized(times(twice, 7), long_text); }),
              HasSubstr("makes more than 7448576 bytes"));
}

TEST(Decoder, MakesOfTokensWhatIsInProportionOrRefuses) {
  const auto twice = make_replace_decoder(Pattern::literal("a"), "aa");
  const auto decoder = make_decoder_sequence(std::vector<DecoderPtr>(40, twice));
  Tokens tokens{"a", "b"};
  twice->apply(tokens, 3);
  EXPECT_THAT(tokens, ElementsAre("aa", "b"));
  EXPECT_THAT(refusal_of([&] { decoder->apply(tokens, 1000); }),
              HasSubstr("makes more than 1000 bytes"));
  Tokens many(100, "a");  // each is short, and all are not
  const auto longer = make_replace_decoder(Pattern::literal("a"), std::string(50, 'a'));
  EXPECT_THAT(refusal_of([&] { longer->apply(many, 1000); }), HasSubstr("more than 1000 bytes"));
}

TEST(Normalizer, DamagedMapsOfCharactersAreRefused) {
  EXPECT_THROW(make_charsmap(""), Error);
  EXPECT_THROW(make_charsmap(std::string("\xFF\xFF\xFF\x7F"
                                         "abcd",
                                         8)),
               Error);
}

TEST(Pattern, Gpt2WordsLeaveASpaceToTheNextWord) {
  EXPECT_THAT(
      words(
          make_split(
              Pattern::regex(
                  R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
              Behavior::isolated, false),
          "it's  a 12%\n\nx \t"),
      ElementsAre("it", "'s", " ", " a", " 12", "%", "\n", "\n", "x", " \t"));
}

TEST(Pattern, TheLookaheadAtTheEndWorksInOtherExpressions) {
  EXPECT_THAT(
      words(make_split(Pattern::regex(R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
                       Behavior::isolated, false),
            "ab12345   cd"),
      ElementsAre("ab", "123", "45", "  ", " ", "cd"));
}

TEST(Pattern, WhatRe2LacksIsRefusedByName) {
  for (const char* expression : {"(?=a)", "a++", "[a&&b]", "[[:alpha:]]", R"(\bword)", "(", R"(\)"})
    EXPECT_THROW(Pattern::regex(expression), Error) << expression;
}

TEST(PreTokenizer, BehaviorsSayWhatBecomesOfSeparators) {
  const auto split = [](Behavior behavior) { return words(make_punctuation(behavior), "a..b."); };
  EXPECT_THAT(split(Behavior::removed), ElementsAre("a", "b"));
  EXPECT_THAT(split(Behavior::isolated), ElementsAre("a", ".", ".", "b", "."));
  EXPECT_THAT(split(Behavior::merged_with_previous), ElementsAre("a.", ".", "b."));
  EXPECT_THAT(split(Behavior::merged_with_next), ElementsAre("a", ".", ".b", "."));
  EXPECT_THAT(split(Behavior::contiguous), ElementsAre("a", "..", "b", "."));
}

TEST(Model, BpeMergesTheLowestRankFirstInLongWordsToo) {
  Vocabulary vocabulary;
  std::uint32_t id = 0;
  for (const char* token : {"a", "b", "c", "ab", "bc", "abc", "aa"}) vocabulary.add(token, id++);
  const auto model =
      make_bpe(std::move(vocabulary), {{"b", "c"}, {"a", "bc"}, {"a", "b"}, {"a", "a"}}, {});
  std::string word;
  ModelScratch scratch;
  std::vector<Token> tokens;
  for (int i = 0; i < 40; ++i) word += "abc";
  model->tokenize(word, scratch, tokens);
  EXPECT_EQ(tokens.size(), 40u);
  tokens.clear();
  model->tokenize("abcab", scratch, tokens);
  EXPECT_THAT(tokens, ElementsAre(Token{5, 0, 3}, Token{3, 3, 5}));
}

// Each byte of a prefix or suffix has a token, as in the reference, at an empty position.
TEST(Model, BytesOfAPrefixOrSuffixAreNoBytesOfTheWord) {
  Vocabulary vocabulary;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    vocabulary.add(fmt::format("<0x{:02X}>", byte), byte);
  BpeOptions options;
  options.prefix = "#", options.suffix = "</w>", options.byte_fallback = true;
  const auto model = make_bpe(std::move(vocabulary), {}, options);
  ModelScratch scratch;
  std::vector<Token> tokens;
  model->tokenize("\xC3\xA9z", scratch, tokens);
  EXPECT_THAT(tokens,
              ElementsAre(Token{0xC3, 0, 1}, Token{0xA9, 1, 2}, Token{'#', 2, 2}, Token{'z', 2, 3},
                          Token{'<', 3, 3}, Token{'/', 3, 3}, Token{'w', 3, 3}, Token{'>', 3, 3}));
  tokens.clear();
  model->tokenize(std::string(40, 'z'), scratch, tokens);  // long enough for the heap
  EXPECT_EQ(tokens.size(), 40u + 39u + 4u);
  EXPECT_EQ(tokens.back(), (Token{'>', 40, 40}));
}

TEST(Model, BpeRefusesALongPrefixOrSuffix) {
  BpeOptions with_prefix, with_suffix;
  with_prefix.prefix = with_suffix.suffix = std::string(kMaxAffixBytes + 1, 'x');
  EXPECT_THAT(refusal_of([&] { make_bpe({}, {}, with_prefix); }),
              HasSubstr("the continuing_subword_prefix has 33 bytes"));
  EXPECT_THAT(refusal_of([&] { make_bpe({}, {}, with_suffix); }),
              HasSubstr("the end_of_word_suffix has 33 bytes"));
}

TEST(Model, UnigramJoinsWhatItDoesNotKnow) {
  const auto model = make_unigram({{"<unk>", 0}, {"ab", -1}, {"a", -2}, {"b", -2}}, 0, false);
  ModelScratch scratch;
  std::vector<Token> tokens;
  model->tokenize("abxyb", scratch, tokens);
  EXPECT_THAT(tokens, ElementsAre(Token{1, 0, 2}, Token{0, 2, 4}, Token{3, 4, 5}));
  EXPECT_THROW(make_unigram({}, 0, false), Error);
}

TEST(IdCache, KeepsShortAndLongTextsAndStartsAnewWhenFull) {
  IdCache cache;
  IdBuffer ids;
  const std::vector<std::uint32_t> five{1, 2, 3, 4, 5};
  for (const std::string text : {"a", "fifteen bytes!!", "a text of more than fifteen bytes"}) {
    EXPECT_FALSE(cache.find(text, ids));
    cache.insert(text, five);
    const std::size_t begin = ids.size();
    EXPECT_TRUE(cache.find(text, ids));
    EXPECT_EQ(ids.from(begin).size(), 5u);
  }
  cache.insert("none", {});
  EXPECT_TRUE(cache.find("none", ids));
  for (int i = 0; i < 300000; ++i) cache.insert("n" + std::to_string(i), five);
  EXPECT_TRUE(cache.find("n299999", ids));
  EXPECT_FALSE(cache.find("n0", ids));
}

}  // namespace
}  // namespace sluice::text
