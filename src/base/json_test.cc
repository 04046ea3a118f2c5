#include "base/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_numbers.h"
#include "base/json_text.h"
#include "base/sanitized_for_tests.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(std::string_view text, std::string_view example = {}) {
  try {
    parse_json_object(text, "the body", example);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return std::string(e.reason());
  }
  return "nothing was wrong";
}

TEST(JsonFromOutside, ObjectMembersAreReadInOrder) {
  EXPECT_EQ(parse_json_object(R"( {"b": [{"x": 1}, {"x": 2}], "a": {"b": null}} )", "it").dump(),
            R"({"b":[{"x":1},{"x":2}],"a":{"b":null}})");
}

TEST(JsonFromOutside, ANameGivenTwiceInOneObjectIsRefusedAtAnyDepth) {
  EXPECT_EQ(refusal(R"({"a": 1, "b": 2, "a": 3})"), "'a' is given twice in the body");
  EXPECT_EQ(refusal(R"({"a": 1, "\u0061": 1})"), "'a' is given twice in the body");
  EXPECT_EQ(refusal(R"({"list": [1, {"deep": {}, "x": 1, "deep": 2}]})"),
            "'deep' is given twice in the body");
  EXPECT_EQ(refusal(R"({"": 1, "": 2})"), "'' is given twice in the body");
}

TEST(JsonFromOutside, TheSameNameInDifferentObjectsIsAccepted) {
  EXPECT_EQ(refusal(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})"), "nothing was wrong");
}

TEST(JsonFromOutside, AValueThatIsNotAnObjectIsRefusedWithAnExample) {
  EXPECT_EQ(refusal("[]"), "the body must be a JSON object, not a list");
  EXPECT_EQ(refusal("null"), "the body must be a JSON object, not null");
  EXPECT_EQ(refusal("1.5", "{\"a\": 1}"),
            "the body must be a JSON object such as {\"a\": 1}, not the number 1.5");
  EXPECT_EQ(refusal("\"a\""), "the body must be a JSON object, not the text 'a'");
}

TEST(JsonFromOutside, EndlessBracketsAreRefusedBeforeTheyAllocate) {
  const auto nested = [](int n) {
    return R"({"a": )" + std::string(static_cast<std::size_t>(n), '[') +
           std::string(static_cast<std::size_t>(n), ']') + "}";
  };
  EXPECT_EQ(refusal(nested(63)), "nothing was wrong");
  EXPECT_EQ(refusal(nested(64)), "the body must be a JSON object, nested at most 64 deep");
  EXPECT_EQ(refusal(std::string(100'000, '[')),
            "the body must be a JSON object, nested at most 64 deep");
}

TEST(JsonFromOutside, InvalidJsonGivesAShortPrintableError) {
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("not JSON: parse error"), Not(HasSubstr("exception"))));
  EXPECT_THAT(refusal("{\"a\": 1,}"), HasSubstr("line 1, column 9"));
  EXPECT_LT(refusal("{\"" + std::string(60'000, 'x')).size(), 300u);
  EXPECT_THAT(refusal("{\"\xff\": 1}"), AllOf(HasSubstr("not JSON"), Not(HasSubstr("\xff"))));
}

TEST(JsonFromOutside, AnObjectOfManyNamesIsReadInLinearTime) {
  constexpr int kNames = 200'000;  // once: each was looked for among all before it
  std::string text = "{";
  for (int i = 0; i < kNames; ++i) text += fmt::format("\"name {}\":{},", i, i);
  text.back() = '}';
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json_object(text, "it").size(), std::size_t{kNames});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience * std::chrono::seconds(5));
}

Json parsed_packed(std::string_view text) {
  return parse_json_object(text, "it", {}, NumberLists::packed);
}

TEST(PackedNumbers, AListOfNumbersIsPackedAndRoundTrips) {
  const std::string text = R"({"a":[1.5,null,-2.0],"b":[[1.0,2.0],[]],"c":[1,"x",null],"d":"ü\n"})";
  const Json json = parsed_packed(text);
  ASSERT_TRUE(is_packed(json["a"]));
  EXPECT_EQ(count_in(json["a"]), 3u);
  EXPECT_THAT(numbers_in(json["a"]), testing::ElementsAre(1.5, testing::IsNan(), -2.0));
  EXPECT_TRUE(is_packed(json["b"][0]));
  EXPECT_TRUE(json["b"][1].is_array());
  EXPECT_TRUE(json["c"].is_array());
  const std::string written = to_text(JsonText(json));
  EXPECT_EQ(written, R"({"a":[1.5,null,-2.0],"b":[[1.0,2.0],[]],"c":[1.0,"x",null],"d":"ü\n"})");
  EXPECT_EQ(unpacked(json).dump(), written);
}

TEST(PackedNumbers, EveryNumberIsWrittenAsDumpWritesIt) {
  const std::vector<double> values{0.0,    -0.0,  1e22, 1e-7, 0.1,  123456789012345680.0,
                                   5e-324, 1e308, NAN,  1e-4, -1e5, INFINITY};
  const std::string written = to_text(JsonText(packed(values)));
  Json plain = Json::array();
  for (const double v : values) plain.push_back(v);
  EXPECT_EQ(written, plain.dump());
}

constexpr std::size_t kBeyond = 32;  // what a piece may have above its size

TEST(PackedNumbers, TextComesInPiecesOfAnySize) {
  const std::vector<double> values(3000, 0.1);
  const Json json = {{"a", packed(values)},
                     {"b", {{"c", Json::array()}, {"d", {packed(values), 1, "x"}}}},
                     {"e", Json::object()}};
  for (const std::size_t bytes : {1u, 100u, 5000u, 1000000u}) {
    JsonText text(json);
    std::string all, piece;
    for (bool more = true; more; all += piece) {
      piece.clear();
      more = text.next(piece, bytes);
      EXPECT_LT(piece.size(), bytes + kBeyond);
    }
    EXPECT_EQ(all, unpacked(json).dump());
  }
}

// Once a string was written in one go, by a thread that serves others: for a page of 60 MB they
// waited 1.6 s.
TEST(PackedNumbers, LongTextsAndNamesComeInPiecesToo) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "\x01\"ab\\ü€\xF0\x9F\x98\x80\x7f\n";
  const Json json = {{text, text}, {"", ""}, {"list", {text, Json{{text, Json::array({text})}}}}};
  for (const Json& one : {json, Json(text), Json(""), Json(1.5)})
    for (const std::size_t bytes : {1u, 7u, 100u, 5000u}) {
      JsonText written(one);
      std::string all, piece;
      std::size_t longest = 0;
      for (bool more = true; more; all += piece) {
        piece.clear();
        more = written.next(piece, bytes);
        longest = std::max(longest, piece.size());
      }
      EXPECT_LT(longest, bytes + kBeyond);
      EXPECT_EQ(all, one.dump());
    }
}

TEST(PackedNumbers, TheMemoryOfADocumentIsEstimated) {
  const std::string name(200, 'n');
  Json many = Json::object();
  for (int i = 0; i < 1000; ++i) many.push_back({name + std::to_string(i), {{"a", 1}, {"b", 2}}});
  EXPECT_NEAR(static_cast<double>(JsonText(many).memory()), 1000 * (48 + 220 + 2 * 48 + 40), 2e4);
  EXPECT_NEAR(static_cast<double>(JsonText(packed(std::vector<double>(1000, 1))).memory()), 8000,
              100);
}

TEST(PackedNumbers, TheSizeOfADocumentIsEstimated) {
  const std::vector<double> values(1000, -1.2345678901234567);
  const Json json = {{"name", "a text"}, {"list", packed(values)}, {"deep", {1, 2.5, nullptr}}};
  EXPECT_NEAR(static_cast<double>(JsonText(json).size()),
              static_cast<double>(to_text(JsonText(json)).size()), 200);
  EXPECT_GE(parsed_size("{\"a\":[" + std::string(1000, ',') + "]}"), 8000u);
  EXPECT_GE(parsed_size("{\"a\":\"" + std::string(1000, 'x') + "\"}"), 1000u);
  std::string texts;
  for (int i = 0; i < 1000; ++i) texts += "\"\",";
  EXPECT_GE(parsed_size("{\"a\":[" + texts + "\"\"]}"), 1000u * (2 * sizeof(Json) + 48 + 3));
}

}  // namespace
}  // namespace sluice
