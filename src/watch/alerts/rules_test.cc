#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "watch/alert.h"
#include "watch/alerts/rules_json.h"

namespace sluice::watch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Rules, TheDefaultsHaveNoProblems) { EXPECT_THAT(problems(default_rules()), IsEmpty()); }

TEST(Rules, EveryDefaultNamesACauseAndAFix) {
  for (const auto& rule : default_rules()) {
    EXPECT_FALSE(rule.cause.empty()) << rule.name;
    EXPECT_FALSE(rule.fix.empty()) << rule.name;
  }
}

struct Broken {
  const char* json;  // over a good rule
  const char* field;
  const char* message;
};

TEST(Rules, EachProblemNamesRuleFieldAndWhatToDo) {
  for (const auto& b : {
           Broken{R"({"name": ""})", "name", "name is missing"},
           Broken{R"({"name": "Too Hot"})", "name", "may have a-z"},
           Broken{R"({"metric": "temperatur"})", "metric", "did you mean 'temperature'?"},
           Broken{R"({"metric": ""})", "metric", "metric is missing"},
           Broken{R"({"condition": "abov"})", "condition", "did you mean 'above'?"},
           Broken{R"({"clear": 90})", "clear",
                  "alert 'hot': clear (90) must not be above threshold (80)"},
           Broken{R"({"condition": "below", "clear": 70})", "clear", "must not be below threshold"},
           Broken{R"({"for_s": -1})", "for_s", "0 to 86400"},
           Broken{R"({"for_s": 1e9})", "for_s", "0 to 86400"},
           Broken{R"({"condition": "drops_percent", "threshold": 100, "clear": 5})", "threshold",
                  "nothing drops by more than 100 %"},
           Broken{R"({"condition": "rises_percent", "threshold": 0, "clear": 0})", "threshold",
                  "more than 0 percent"},
           Broken{R"({"metric": "utilization", "threshold": 100})", "threshold",
                  "utilization ends at 100 percent"},
           Broken{R"({"condition": "grows", "threshold": -1, "clear": -2})", "threshold",
                  "must not be negative"},
           Broken{R"({"window_s": 0})", "window_s", "4 to 86400"},
           Broken{R"({"cause": "at {valu}"})", "cause", "unknown '{valu}'; did you mean 'value'?"},
           Broken{R"({"device": ""})", "device", "'*' means any"},
           Broken{R"({"threshold": "80"})", "threshold", "must be a number"},
           Broken{R"({"severity": "high"})", "severity", "info, warning, critical"},
           Broken{R"({"enabled": 1})", "enabled", "true or false"},
           Broken{R"({"treshold": 80})", "treshold", "did you mean 'threshold'?"},
       }) {
    Json json = {{"name", "hot"},
                 {"metric", "temperature"},
                 {"condition", "above"},
                 {"threshold", 80},
                 {"clear", 75}};
    json.update(Json::parse(b.json));
    std::vector<RuleProblem> found;
    rules_from_json(Json::array({json}), found, {});
    ASSERT_EQ(found.size(), 1u) << b.json;
    EXPECT_EQ(found[0].index, 0u);
    EXPECT_EQ(found[0].field, b.field);
    EXPECT_THAT(found[0].message, HasSubstr(b.message));
    EXPECT_THROW(rule_from_json(json), Error);
  }
}

TEST(Rules, AllProblemsAreReportedTogetherWithTheirPlace) {
  std::vector<RuleProblem> found;
  rules_from_json(Json::parse(R"([
    {"name": "gpu-temperature", "threshold": 85},
    {"name": "a", "metric": "nope", "condition": "above", "for_s": -5},
    7,
    {"name": "b", "metric": "power", "condition": "above", "threshold": "x"}])"),
                  found);
  std::vector<std::string> places;
  for (const auto& p : found) places.push_back(std::to_string(p.index) + p.field);
  EXPECT_THAT(places, ElementsAre("1metric", "1for_s", "2", "3threshold"));
}

TEST(Rules, AnEntryWithADefaultsNameChangesOnlyWhatItGives) {
  std::vector<RuleProblem> found;
  const auto rules =
      rules_from_json(Json::parse(R"([{"name": "gpu-temperature", "threshold": 70, "for_s": 3},
                                      {"name": "gpu-utilization", "enabled": false},
                                      {"name": "gpu-slow", "condition": "below", "threshold": 40}])"),
                      found);
  EXPECT_THAT(found, IsEmpty());
  EXPECT_EQ(rules.size(), default_rules().size());
  for (const auto& r : rules) {
    if (r.name == "gpu-temperature") {
      EXPECT_EQ(r.threshold, 70);
      EXPECT_EQ(r.clear, 65) << "the distance is kept";
      EXPECT_EQ(r.for_s, 3);
      EXPECT_EQ(r.metric, "temperature");
    }
    if (r.name == "gpu-utilization") {
      EXPECT_FALSE(r.enabled);
    }
    if (r.name == "gpu-slow") {
      EXPECT_EQ(r.clear, 40);
    }
  }
}

TEST(Rules, ANewNameAddsARuleAndTheSameNameTwiceIsAProblem) {
  const Json fan = {{"name", "fan"}, {"metric", "fan"}, {"condition", "below"}, {"threshold", 10}};
  std::vector<RuleProblem> found;
  const auto rules = rules_from_json(Json::array({fan}), found);
  EXPECT_THAT(found, IsEmpty());
  EXPECT_EQ(rules.back().name, "fan");
  EXPECT_EQ(rules.back().clear, 10);
  rules_from_json(Json::array({fan, fan}), found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].index, 1u);
  EXPECT_THAT(found[0].message, HasSubstr("used twice"));
}

TEST(Rules, RulesRoundTripThroughJson) {
  for (const auto& rule : default_rules()) EXPECT_EQ(rule_from_json(to_json(rule)), rule);
}

TEST(Rules, TheSchemaDescribesEveryFieldOfARule) {
  const auto schema = rule_schema();
  const Json rule = to_json(default_rules()[0]);
  for (const auto& [key, value] : rule.items()) {
    ASSERT_TRUE(schema["properties"].contains(key)) << key;
    const std::string type = value.is_string()    ? "string"
                             : value.is_boolean() ? "boolean"
                                                  : "number";
    EXPECT_EQ(schema["properties"][key]["type"], type) << key;
  }
  EXPECT_EQ(schema["properties"].size(), rule.size());
}

TEST(Rules, ValuesAreShownWithTheirUnits) {
  EXPECT_EQ(with_unit(84, "celsius"), "84 C");
  EXPECT_EQ(with_unit(91.24, "percent"), "91.2 %");
  EXPECT_EQ(with_unit(1536, "bytes"), "1.5 KiB");
  EXPECT_EQ(with_unit(0.1234, "milliseconds"), "0.123 ms");
  EXPECT_EQ(with_unit(125, "seconds"), "2 min 5 s");
  EXPECT_EQ(with_unit(3, ""), "3");
}

}  // namespace
}  // namespace sluice::watch
