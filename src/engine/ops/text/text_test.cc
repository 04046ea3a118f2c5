// Sequences, text, random numbers and classical models: what the ONNX cases do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/one_op_for_tests.h"
#include "engine/ops/text/regex.h"
#include "engine/ops/text/unicode.h"

namespace sluice::engine {
namespace {

using Integers = Attributes::Integers;
using Reals = Attributes::Reals;
using Strings = Attributes::Strings;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
const std::string kMl = "ai.onnx.ml";

Tensor words(const std::vector<std::string>& list) {
  return Tensor::of(std::span<const std::string>(list));
}

struct Match {
  std::string pattern, text;
  bool matches;
};
class RegexTest : public ::testing::TestWithParam<Match> {};

TEST_P(RegexTest, MatchesTheWholeTextOrNot) {
  EXPECT_EQ(Regex(GetParam().pattern).matches_all(GetParam().text), GetParam().matches)
      << GetParam().pattern << " on " << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    All, RegexTest,
    ::testing::Values(
        Match{"", "", true}, Match{"a*", "aaa", true}, Match{"a*", "aab", false},
        Match{"a+b?", "aab", true}, Match{"a+", "", false}, Match{"ab|cd|", "cd", true},
        Match{"(ab|c)+d", "abcabd", true}, Match{"a{2,3}", "a", false},
        Match{"a{2,3}", "aaa", true}, Match{"a{2,3}", "aaaa", false},
        Match{"(ab){2}{2}", "abababab", true}, Match{"a{2,}", "aaaaa", true},
        Match{"a{0}", "", true}, Match{"x{,2}", "x{,2}", true}, Match{"[^a-c\\d]+", "xyz", true},
        Match{"[^a-c\\d]+", "x1", false}, Match{"[]a-]+", "]-a", true},
        Match{"[[:upper:]_]+", "AB_C", true}, Match{"\\w+@\\w+\\.com", "a@b.com", true},
        Match{"\\w+@\\w+\\.com", "a@bxcom", false}, Match{".", "\n", false},
        Match{"(?s).", "\n", true},
        Match{"(?i)stra\xC3\x9F"
              "e",
              "STRA\xC3\x9F"
              "E",
              true},
        Match{".{2}", "\xC3\xA4\xE2\x82\xAC", true}, Match{"^a$", "a", true},
        Match{"a\\b.*", "a b", true}, Match{"a\\b.*", "ab", false},
        Match{"(?:a|b)*?c", "abac", true}, Match{"(?P<n>a)\\x41\\x{42}", "aAB", true},
        Match{"\\Qa+b\\E+", "a+bb", true}, Match{"(a?){20}a{20}", "aaaaaaaaaaaaaaaaaaaa", true}));

TEST(RegexLimitsTest, WrongAndHostilePatternsAreRefused) {
  for (const char* pattern : {"(", ")", "[a", "*a", "a{3,2}", "a{1001}", "\\", "[z-a]", "\\8",
                              "((a{1000}){1000}){1000}", "(?<n", "\\x{110000}", "\xFF"})
    EXPECT_THROW(Regex r(pattern), Error) << pattern;
  EXPECT_THROW(Regex r(std::string(100'000, '(')), Error);
}

TEST(RegexLimitsTest, NoPatternTakesExponentialTime) {
  EXPECT_FALSE(Regex("(a|a|aa)*(a*)*b").matches_all(std::string(5000, 'a')));
}

TEST(LettersTest, CasesOfLettersBeyondAscii) {
  EXPECT_EQ(upper("stra\xC3\x9F"
                  "e \xC3\xA9\xCF\x82\xD1\x8F"),
            "STRA\xC3\x9F"
            "E \xC3\x89\xCE\xA3\xD0\xAF");
  EXPECT_EQ(lower("\xC3\x89\xD0\xAF\xC5\xB8"), "\xC3\xA9\xD1\x8F\xC3\xBF");
}

TEST(StringSplitTest, EmptyTensorsAndTextsSplitIntoNothing) {
  const auto none = OneOp("StringSplit", 20).run({words({})}, 2);
  EXPECT_EQ(none[0].shape(), Shape({0, 0}));
  EXPECT_EQ(none[1].shape(), Shape{0});
  const auto blank = OneOp("StringSplit", 20).run({words({"  ", " a  b "})}, 2);
  EXPECT_THAT(list_of<std::int64_t>(blank[1]), ElementsAre(0, 2));
  EXPECT_THAT(list_of<std::string>(blank[0]), ElementsAre("", "", "a", "b"));
}

TEST(TfIdfTest, CountsThatDoNotFitThePoolAreRefused) {
  const auto made = [](Integers counts, Integers indexes) {
    OneOp op("TfIdfVectorizer", 9);
    op.set("min_gram_length", std::int64_t{1})
        .set("max_gram_length", std::int64_t{2})
        .set("max_skip_count", std::int64_t{0});
    op.set("mode", std::string("TF")).set("pool_int64s", Integers{1, 2, 3, 4});
    op.set("ngram_counts", std::move(counts)).set("ngram_indexes", std::move(indexes));
    return op.refusal({tensor_of<std::int64_t>({2}, {3, 4})});
  };
  EXPECT_EQ(made({0, 2}, {0, 1, 2}), "accepted");
  EXPECT_THAT(made({0, 9}, {0, 1, 2}), HasSubstr("do not fit the pool"));
  EXPECT_THAT(made({0, 3}, {0, 1, 2}), HasSubstr("do not fit the pool"));
  EXPECT_THAT(made({0, 2}, {0, 1}), HasSubstr("2 indexes for 3"));
  EXPECT_THAT(made({0, 2}, {0, 1, -2}), HasSubstr("index -2"));
}

TEST(SequenceTest, PositionsOutsideAreRefused) {
  const Datum items = std::vector<Tensor>{varied({1}), varied({2})};
  const auto position = [](std::int64_t i) { return Datum(Tensor::of(i)); };
  EXPECT_EQ(run_one({"SequenceAt", 11}, {items, position(-1)}).shape(), Shape{2});
  EXPECT_NE(refusal({"SequenceAt", 11}, {items, position(2)}), "accepted");
  EXPECT_NE(refusal({"SequenceErase", 11}, {items, position(-3)}), "accepted");
  EXPECT_EQ(refusal({"SequenceInsert", 11}, {items, varied({3}), position(2)}), "accepted");
  EXPECT_NE(refusal({"SequenceInsert", 11}, {items, varied({3}), position(3)}), "accepted");
  EXPECT_NE(refusal({"SequenceInsert", 11}, {items, Tensor::of(1.0)}), "accepted");
  EXPECT_NE(refusal({"ConcatFromSequence", 11, {{"axis", std::int64_t{0}}}},
                    {Datum(std::vector<Tensor>{})}),
            "accepted");
}

TEST(RandomTest, ASeedMakesTheNumbersOfNumpy) {
  OneOp uniform("RandomUniform", 22), normal("RandomNormal", 22);
  uniform.set("shape", Integers{3}).set("seed", 0.0f);
  normal.set("shape", Integers{3}).set("seed", 0.0f);
  EXPECT_THAT(list_of<float>(uniform.run({})[0]),
              ElementsAre(FloatNear(0.5488135f, 1e-6f), FloatNear(0.71518937f, 1e-6f),
                          FloatNear(0.60276338f, 1e-6f)));
  EXPECT_THAT(list_of<float>(normal.run({})[0]),
              ElementsAre(FloatNear(1.76405235f, 1e-6f), FloatNear(0.40015721f, 1e-6f),
                          FloatNear(0.97873798f, 1e-6f)));
}

TEST(RandomTest, WithoutASeedRunsDiffer) {
  OneOp op("RandomUniform", 22);
  op.set("shape", Integers{8});
  EXPECT_NE(list_of<float>(op.run({})[0]), list_of<float>(op.run({})[0]));
}

TEST(RandomTest, ClassesAreDrawnByTheirWeight) {
  OneOp op("Multinomial", 22);
  op.set("seed", 3.0f).set("sample_size", std::int64_t{4000});
  const auto drawn = op.run({tensor_of<float>({1, 3}, {std::log(0.7f), -1e30f, std::log(0.3f)})});
  int counts[3] = {};
  for (const std::int32_t c : list_of<std::int32_t>(drawn[0])) ++counts[c];
  EXPECT_NEAR(counts[0], 2800, 150);
  EXPECT_EQ(counts[1], 0);
}

TEST(DropoutTest, TheFirstVersionsHaveMasksOfTheDataType) {
  const auto out = OneOp("Dropout", 7).run({varied({4})}, 2);
  EXPECT_THAT(list_of<float>(out[1]), ElementsAre(1, 1, 1, 1));
}

TEST(LabelEncoderTest, TheFirstVersionGoesBothWays) {
  OneOp op("LabelEncoder", 1, kMl);
  op.set("classes_strings", Strings{"a", "b"}).set("default_int64", std::int64_t{-7});
  EXPECT_THAT(list_of<std::int64_t>(op.run({words({"b", "x", "a"})})[0]), ElementsAre(1, -7, 0));
  EXPECT_THAT(list_of<std::string>(op.run({tensor_of<std::int64_t>({2}, {1, 9})})[0]),
              ElementsAre("b", "_Unused"));
}

TEST(LinearTest, ALoneScoreDecidesBetweenTwoClasses) {
  OneOp op("LinearClassifier", 1, kMl);
  op.set("coefficients", Reals{1, -1}).set("intercepts", Reals{0});
  op.set("classlabels_strings", Strings{"no", "yes"})
      .set("post_transform", std::string("LOGISTIC"));
  const auto out = op.run({tensor_of<float>({2, 2}, {2, 0, 0, 2})}, 2);
  EXPECT_THAT(list_of<std::string>(out[0]), ElementsAre("yes", "no"));
  EXPECT_THAT(list_of<float>(out[1])[1], FloatNear(0.880797f, 1e-5f));
  EXPECT_NE(op.refusal({varied({2, 3})}), "accepted");
}

TEST(SvmTest, ADistanceToSupportVectorsIsTheRegression) {
  OneOp op("SVMRegressor", 1, kMl);
  op.set("kernel_type", std::string("RBF")).set("kernel_params", Reals{1, 0, 0});
  op.set("support_vectors", Reals{0, 0, 1, 1}).set("coefficients", Reals{2, -1});
  op.set("n_supports", std::int64_t{2}).set("rho", Reals{0.5f});
  EXPECT_NEAR(op.run({tensor_of<float>({1, 2}, {0, 0})})[0].values<float>()[0],
              2 - std::exp(-2.0) + 0.5, 1e-5);
}

// One question, two leaves; `next` is where the first answer leads.
OneOp tree(std::int64_t next, std::int64_t feature = 0) {
  OneOp op("TreeEnsembleRegressor", 3, kMl);
  op.set("nodes_treeids", Integers{0, 0, 0}).set("nodes_nodeids", Integers{0, 1, 2});
  op.set("nodes_featureids", Integers{feature, 0, 0}).set("nodes_values", Reals{0.5f, 0, 0});
  op.set("nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"});
  op.set("nodes_truenodeids", Integers{next, 0, 0}).set("nodes_falsenodeids", Integers{2, 0, 0});
  op.set("target_treeids", Integers{0, 0}).set("target_nodeids", Integers{1, 2});
  op.set("target_ids", Integers{0, 0}).set("target_weights", Reals{10, 20});
  return op;
}

TEST(TreeTest, RowsGoToTheirLeaves) {
  const Tensor x = tensor_of<float>({2, 1}, {0.5f, 0.6f});
  EXPECT_THAT(list_of<float>(tree(1).run({x})[0]), ElementsAre(10, 20));
}

TEST(TreeTest, BrokenTreesAreRefused) {
  const Tensor x = tensor_of<float>({1, 1}, {0});
  EXPECT_THAT(tree(0).refusal({x}), HasSubstr("circle"));
  EXPECT_THAT(tree(9).refusal({x}), HasSubstr("without its node 9"));
  EXPECT_THAT(tree(1, 1).refusal({x}), HasSubstr("feature 1"));
  EXPECT_THAT(tree(1, -1).refusal({x}), HasSubstr("feature -1"));
  EXPECT_THAT(tree(1).refusal({Tensor(DType::f32, {std::int64_t{1} << 50, 0})}),
              HasSubstr("without columns"));
}

}  // namespace
}  // namespace sluice::engine
