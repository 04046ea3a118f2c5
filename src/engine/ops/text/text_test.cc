// Sequences, text, random numbers and classical models, beyond the ONNX test cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/one_op_for_tests.h"
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

bool full_match(const std::string& pattern, const std::string& text) {
  return OneOp("RegexFullMatch", 20)
      .set("pattern", pattern)
      .run({words({text})})[0]
      .values<bool>()[0];
}
std::string pattern_refusal(const std::string& pattern) {
  return OneOp("RegexFullMatch", 20).set("pattern", pattern).refusal({words({"a"})});
}

TEST_P(RegexTest, MatchesOnlyTheEntireText) {
  EXPECT_EQ(full_match(GetParam().pattern, GetParam().text), GetParam().matches)
      << GetParam().pattern << " on " << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    All, RegexTest,
    ::testing::Values(
        Match{"", "", true}, Match{"a*", "aaa", true}, Match{"a*", "aab", false},
        Match{"a+b?", "aab", true}, Match{"a+", "", false}, Match{"ab|cd|", "cd", true},
        Match{"(ab|c)+d", "abcabd", true}, Match{"a{2,3}", "a", false},
        Match{"a{2,3}", "aaa", true}, Match{"a{2,3}", "aaaa", false},
        Match{"((ab){2}){2}", "abababab", true}, Match{"a{2,}", "aaaaa", true},
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
        Match{"^a$", "a\n", false}, Match{"\\p{Greek}+", "\xCE\xB1\xCE\xA9", true},
        Match{"\\p{Greek}+", "a", false}, Match{"\\p{Lu}\\p{Ll}+\\pN", "\xC3\x84rger7", true},
        Match{"[^\\PL\\p{Lu}]+", "\xC3\xA4z", true}, Match{"[^\\PL\\p{Lu}]+", "Z", false},
        Match{"(?i)\xC3\x84", "\xC3\xA4", true}, Match{"\\w", "\xC3\xA4", false},
        Match{"a\\b.*", "a b", true}, Match{"a\\b.*", "ab", false},
        Match{"(?:a|b)*?c", "abac", true}, Match{"(?P<n>a)\\x41\\x{42}", "aAB", true},
        Match{"\\Qa+b\\E+", "a+bb", true}, Match{"(a?){20}a{20}", "aaaaaaaaaaaaaaaaaaaa", true}));

TEST(RegexLimitsTest, MalformedAndHostilePatternsAreRejected) {
  for (const char* pattern :
       {"(", ")", "[a", "*a", "a{3,2}", "a{1001}", "\\", "[z-a]", "\\8", "(ab){2}{2}",
        "((a{1000}){1000}){1000}", "(?<n", "\\x{110000}", "\\p{Klingon}", "\xFF"})
    EXPECT_THAT(pattern_refusal(pattern), HasSubstr("RegexFullMatch node: RE2 refuses the pattern"))
        << pattern;
  EXPECT_THAT(pattern_refusal("a("), HasSubstr("missing )"));
  const std::string deep = pattern_refusal(std::string(100'000, '('));
  EXPECT_THAT(deep, HasSubstr("missing )"));
  EXPECT_LT(deep.size(), 200u);
}

TEST(RegexLimitsTest, PatternsOverTheMemoryLimitAreRejected) {
  EXPECT_THAT(pattern_refusal("(\\p{L}{100}){10}"), HasSubstr("pattern too large"));
  EXPECT_THAT(pattern_refusal("(?i)(\\p{L}|x){900}"), HasSubstr("pattern too large"));
}

TEST(RegexLimitsTest, NothingIsPrinted) {
  ::testing::internal::CaptureStderr();
  pattern_refusal("(");
  pattern_refusal("(\\p{L}{100}){10}");
  pattern_refusal(std::string(100'000, '(') + std::string(100'000, ')') + "?");
  EXPECT_THAT(pattern_refusal(std::string(3'000'000, '(') + std::string(3'000'000, ')')),
              HasSubstr("a pattern of 6000000 bytes"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(RegexLimitsTest, InvalidUtf8IsRejected) {
  EXPECT_THAT(OneOp("RegexFullMatch", 20).set("pattern", ".*").refusal({words({"a", "\xC3("})}),
              HasSubstr("RegexFullMatch node: a text that is not UTF-8"));
}

TEST(RegexLimitsTest, NoPatternTakesExponentialTime) {
  EXPECT_FALSE(full_match("(a|a|aa)*(a*)*b", std::string(100'000, 'a')));
  // Its DFA has 2^500 states.
  EXPECT_FALSE(full_match("[ab]*a[ab]{500}", std::string(20'000, 'a') + std::string(501, 'b')));
}

TEST(UnicodeCaseTest, CaseMappingCoversEveryScript) {
  const std::vector<std::pair<std::string, std::string>> lower_and_upper{
      {"\u00e9\u0153\u01c6\u0180", "\u00c9\u0152\u01c4\u0243"},  // Latin
      {"\u00ff\u1e9f\u1f80", "\u0178\u1e9f\u1f88"},          // Latin without an upper case, Greek
      {"\u03b1\u0430\u0561", "\u0391\u0410\u0531"},          // Greek, Cyrillic, Armenian
      {"\u10d0\uab70\U0001e922", "\u1c90\u13a0\U0001e900"},  // Georgian, Cherokee, Adlam
      {"\u65e5\u0e01\u05d0", "\u65e5\u0e01\u05d0"}};         // scripts without case
  for (const auto& [lower_case, upper_case] : lower_and_upper) {
    EXPECT_EQ(upper(lower_case), upper_case);
    EXPECT_EQ(lower(upper_case), lower_case);
  }
}

TEST(UnicodeCaseTest, EachCodePointMapsToOneCodePoint) {
  EXPECT_EQ(upper("stra\u00dfe \ufb01\u0149\u03c2"), "STRA\u00dfE \ufb01\u0149\u03a3");
  EXPECT_EQ(lower("\u1e9e\u0130I\u0391\u03a3"), "\u00dfii\u03b1\u03c3");
}

TEST(UnicodeCaseTest, StopwordsIgnoreCaseInEveryScript) {
  OneOp op("StringNormalizer", 10);
  op.set("stopwords", Strings{"\u10d0", "\u00c9T\u00c9"})
      .set("case_change_action", std::string("UPPER"));
  EXPECT_THAT(list_of<std::string>(op.run({words({"\u1c90", "\u00e9t\u00e9", "\u0561"})})[0]),
              ElementsAre("\u0531"));
  EXPECT_THAT(op.refusal({words({"\xED\xA0\x80"})}), HasSubstr("not UTF-8"));
}

TEST(StringSplitTest, EmptyTensorsAndStringsSplitIntoNothing) {
  const auto none = OneOp("StringSplit", 20).run({words({})}, 2);
  EXPECT_EQ(none[0].shape(), Shape({0, 0}));
  EXPECT_EQ(none[1].shape(), Shape{0});
  const auto blank = OneOp("StringSplit", 20).run({words({"  ", " a  b "})}, 2);
  EXPECT_THAT(list_of<std::int64_t>(blank[1]), ElementsAre(0, 2));
  EXPECT_THAT(list_of<std::string>(blank[0]), ElementsAre("", "", "a", "b"));
}

TEST(TfIdfTest, CountsThatDoNotMatchThePoolAreRejected) {
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

TEST(SequenceTest, PositionsOutOfRangeAreRejected) {
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

TEST(RandomTest, SeededNumbersMatchNumPy) {
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

TEST(RandomTest, RunsDifferWithoutASeed) {
  OneOp op("RandomUniform", 22);
  op.set("shape", Integers{8});
  EXPECT_NE(list_of<float>(op.run({})[0]), list_of<float>(op.run({})[0]));
}

TEST(RandomTest, ClassesAreSampledByTheirWeight) {
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

TEST(LabelEncoderTest, FirstVersionMapsInBothDirections) {
  OneOp op("LabelEncoder", 1, kMl);
  op.set("classes_strings", Strings{"a", "b"}).set("default_int64", std::int64_t{-7});
  EXPECT_THAT(list_of<std::int64_t>(op.run({words({"b", "x", "a"})})[0]), ElementsAre(1, -7, 0));
  EXPECT_THAT(list_of<std::string>(op.run({tensor_of<std::int64_t>({2}, {1, 9})})[0]),
              ElementsAre("b", "_Unused"));
}

TEST(LinearTest, SingleScoreDecidesBetweenTwoClasses) {
  OneOp op("LinearClassifier", 1, kMl);
  op.set("coefficients", Reals{1, -1}).set("intercepts", Reals{0});
  op.set("classlabels_strings", Strings{"no", "yes"})
      .set("post_transform", std::string("LOGISTIC"));
  const auto out = op.run({tensor_of<float>({2, 2}, {2, 0, 0, 2})}, 2);
  EXPECT_THAT(list_of<std::string>(out[0]), ElementsAre("yes", "no"));
  EXPECT_THAT(list_of<float>(out[1])[1], FloatNear(0.880797f, 1e-5f));
  EXPECT_NE(op.refusal({varied({2, 3})}), "accepted");
}

TEST(SvmTest, RegressionUsesDistancesToSupportVectors) {
  OneOp op("SVMRegressor", 1, kMl);
  op.set("kernel_type", std::string("RBF")).set("kernel_params", Reals{1, 0, 0});
  op.set("support_vectors", Reals{0, 0, 1, 1}).set("coefficients", Reals{2, -1});
  op.set("n_supports", std::int64_t{2}).set("rho", Reals{0.5f});
  EXPECT_NEAR(op.run({tensor_of<float>({1, 2}, {0, 0})})[0].values<float>()[0],
              2 - std::exp(-2.0) + 0.5, 1e-5);
}

// One branch node, two leaves; `next` is the node of the true branch.
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

TEST(TreeTest, RowsReachTheirLeaves) {
  const Tensor x = tensor_of<float>({2, 1}, {0.5f, 0.6f});
  EXPECT_THAT(list_of<float>(tree(1).run({x})[0]), ElementsAre(10, 20));
}

TEST(TreeTest, MalformedTreesAreRejected) {
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
