#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/settings_show.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

std::string even_cause(std::string_view text) {
  return text.size() % 2 == 0 ? "" : "must have an even length";
}

struct Everything {
  bool on = true;
  std::int64_t count = 4;
  double ratio = 0.5;
  std::string mode = "fast";
  std::string even;
  Secret token;
  Duration wait{5};
  std::vector<Ident> ids;
  std::vector<std::int64_t> numbers = {1};
  std::map<std::string, std::int64_t> sizes;

  static constexpr auto fields() {
    using C = Everything;
    return std::tuple{
        Field{"on", &C::on, "a switch"}.env("OLD_ON").live(),
        Field{"count", &C::count, "how many"}.range(1, 10),
        Field{"ratio", &C::ratio, "a share"}.range(0, 1),
        Field{"mode", &C::mode, "one word"}.one_of("fast|slow"),
        Field{"even", &C::even, "checked text"}.check(even_cause),
        Field{"token", &C::token, "not to be seen"},
        Field{"wait", &C::wait, "a time"}.range(0, 3600),
        Field{"ids", &C::ids, "names or numbers"},
        Field{"numbers", &C::numbers, "several"}.range(0, 99),
        Field{"sizes", &C::sizes, "per name"}.range(1, 100).env_each("SIZE_*"),
    };
  }
  void check_together(std::vector<std::string>& found) const {
    if (mode == "slow" && count > 5) found.push_back("count is above 5, which needs mode fast");
  }
};

struct Rule {
  std::string name;
  std::int64_t level = 1;
  static constexpr auto fields() {
    using C = Rule;
    return std::tuple{Field{"name", &C::name, "what"},
                      Field{"level", &C::level, "how"}.range(0, 9)};
  }
};

struct Loading : testing::Test {
  Origins origins;
  Everything all;
  std::vector<Rule> rules;
  Settings settings{origins};
  std::vector<Problem> problems;

  Loading() {
    settings.add("all", "everything", all);
    settings.add_list("rules", "some rules", true, rules);
  }
  void file(std::string_view text) {
    settings.load(parse_document("s.toml", text, Format::toml, problems), problems);
  }
  void env(const Environment& environment) { settings.load(environment, {}, problems); }
  void flag(const std::string& key, const std::string& value) {
    settings.load({{"--" + key, key, value}}, problems);
  }
  std::vector<std::string> found() const {
    std::vector<std::string> out;
    for (const auto& p : problems) out.push_back(to_string(p));
    return out;
  }
  std::string origin(const std::string& key) const { return to_string(settings.origin_of(key)); }
};

TEST_F(Loading, ReadsEveryTypeFromAFile) {
  file(
      "[all]\non = false\ncount = 7\nratio = 1\nmode = 'slow'\ntoken = 't'\nwait = '1m'\n"
      "ids = [0, 'GPU-1']\nnumbers = []\nsizes = { a = 2 }\n");
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_FALSE(all.on);
  EXPECT_EQ(all.count, 7);
  EXPECT_EQ(all.ratio, 1);
  EXPECT_EQ(all.token.reveal(), "t");
  EXPECT_EQ(all.wait, Duration{60});
  EXPECT_THAT(all.ids, ElementsAre(Ident{"0"}, Ident{"GPU-1"}));
  EXPECT_THAT(all.numbers, IsEmpty());
  EXPECT_THAT(all.sizes, ElementsAre(Pair("a", 2)));
  EXPECT_EQ(origin("all.count"), "file s.toml:3");
}

TEST_F(Loading, ReadsEveryTypeFromTheEnvironment) {
  env({{"SLUICE_ALL_ON", "off"},
       {"SLUICE_ALL_COUNT", " 7 "},
       {"SLUICE_ALL_RATIO", "1e-1"},
       {"SLUICE_ALL_MODE", "slow"},
       {"SLUICE_ALL_TOKEN", "t"},
       {"SLUICE_ALL_WAIT", "90"},
       {"SLUICE_ALL_IDS", "0, GPU-1"},
       {"SLUICE_ALL_NUMBERS", ""},
       {"SLUICE_ALL_SIZES", "a=2,b=3"}});
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_FALSE(all.on);
  EXPECT_EQ(all.count, 7);
  EXPECT_EQ(all.ratio, 0.1);
  EXPECT_EQ(all.wait, Duration{90});
  EXPECT_THAT(all.ids, ElementsAre(Ident{"0"}, Ident{"GPU-1"}));
  EXPECT_THAT(all.numbers, IsEmpty());
  EXPECT_THAT(all.sizes, ElementsAre(Pair("a", 2), Pair("b", 3)));
  EXPECT_EQ(origin("all.sizes.b"), "env SLUICE_ALL_SIZES");
}

TEST_F(Loading, LaterSourcesOverrideEarlierOnesAndEachValueNamesItsSource) {
  file("[all]\ncount = 2\nratio = 0.1\n[all.sizes]\na = 1\nb = 2\n");
  env({{"SLUICE_ALL_COUNT", "3"}, {"SIZE_B", "5"}, {"OLD_ON", "0"}});
  flag("all.count", "4");
  EXPECT_EQ(all.count, 4);
  EXPECT_EQ(origin("all.count"), "flag --all.count");
  EXPECT_EQ(origin("all.ratio"), "file s.toml:3");
  EXPECT_EQ(origin("all.on"), "env OLD_ON");
  EXPECT_EQ(origin("all.mode"), "default");
  EXPECT_EQ(origin("all.sizes.a"), "file s.toml:5");
  EXPECT_EQ(origin("all.sizes.b"), "env SIZE_B");
  EXPECT_THAT(all.sizes, ElementsAre(Pair("a", 1), Pair("b", 5)));
}

TEST_F(Loading, OurOwnVariableOverridesAnotherName) {
  env({{"OLD_ON", "true"}, {"SLUICE_ALL_ON", "false"}});
  EXPECT_FALSE(all.on);
  EXPECT_EQ(origin("all.on"), "env SLUICE_ALL_ON");
}

TEST_F(Loading, AnInvalidValueIsReportedAndThePreviousOneIsKept) {
  file("[all]\ncount = 11\n");
  EXPECT_EQ(all.count, 4);
  EXPECT_THAT(found(), ElementsAre("s.toml:2: all.count: 11 is too large; allowed is 1..10"));
  EXPECT_EQ(origin("all.count"), "default");
}

TEST_F(Loading, IntegersWrittenAsFractionsAreAcceptedOnlyWhenExact) {
  file("[all]\ncount = 7.0\n");
  EXPECT_EQ(all.count, 7);
  file("[all]\ncount = 7.5\n");
  EXPECT_THAT(found(), ElementsAre("s.toml:2: all.count: must be an integer, not 7.5"));
}

TEST_F(Loading, IntegersInTextAreDigitsOnly) {
  for (const auto* text : {"7.0", "1e0", "0x7", "+-7", "- 7", "99999999999999999999"}) {
    problems.clear();
    env({{"SLUICE_ALL_COUNT", text}, {"SLUICE_ALL_NUMBERS", text}, {"SLUICE_ALL_SIZES_A", text}});
    flag("all.count", text);
    EXPECT_EQ(problems.size(), 4u) << text;
    for (const auto& p : problems) EXPECT_THAT(p.cause, HasSubstr("must be an integer")) << text;
  }
  EXPECT_EQ(all.count, 4);
  problems.clear();
  flag("all.count", "1e0");
  EXPECT_THAT(found(), ElementsAre("flag --all.count: all.count: must be an integer in plain "
                                   "digits, not text '1e0'"));
  flag("all.count", "+7");
  EXPECT_EQ(all.count, 7);
}

TEST_F(Loading, EveryProblemOfAListIsNamed) {
  file("[all]\nnumbers = [1, 100, 'x']\n");
  EXPECT_THAT(found(), ElementsAre("s.toml:2: all.numbers: element 2: 100 is too large; allowed is "
                                   "0..99; element 3: must be an integer, not text 'x'"));
}

TEST_F(Loading, EachWrongElementOfATableHasItsOwnLine) {
  file("[all.sizes]\na = 0\nb = 1\n'c d' = 1\n");
  EXPECT_THAT(found(), ElementsAre("s.toml:2: all.sizes.a: 0 is too small; allowed is 1..100",
                                   "s.toml:4: all.sizes.c d: 'c d' is not a name: letters, digits, "
                                   "'_' and '-' only"));
  EXPECT_THAT(all.sizes, ElementsAre(Pair("b", 1)));
}

TEST_F(Loading, AForeignVariableOfOursIsReportedAndThoseOfOthersAreNot) {
  env({{"SLUICE_ALL_CUONT", "1"}, {"PATH", "/bin"}, {"SLUICE_ALL_SIZES_X", "3"}});
  EXPECT_THAT(found(), ElementsAre("env SLUICE_ALL_CUONT: no setting has this variable; did you "
                                   "mean 'SLUICE_ALL_COUNT'?"));
  EXPECT_THAT(all.sizes, ElementsAre(Pair("x", 3)));
}

TEST_F(Loading, EmptyVariablesAreProblemsWhereTextWouldNotBe) {
  env({{"SLUICE_ALL_COUNT", ""}, {"SLUICE_ALL_EVEN", ""}});
  EXPECT_THAT(
      found(),
      ElementsAre("env SLUICE_ALL_COUNT: all.count: is empty; unset it or give an integer"));
}

TEST_F(Loading, BytesThatAreNotTextAreRefused) {
  env({{"SLUICE_ALL_EVEN", "\xFF\xFE"}, {"SLUICE_\x1B[2J", ""}});
  EXPECT_THAT(found(), ElementsAre("env SLUICE_ALL_EVEN: all.even: is not valid UTF-8",
                                   "env SLUICE_\\x1b[2J: no setting has this variable"));
}

TEST_F(Loading, FlagsReachElementsOfTables) {
  flag("all.sizes.scout", "64");
  EXPECT_THAT(all.sizes, ElementsAre(Pair("scout", 64)));
  flag("rules[0].name", "x");
  flag("all.cuont", "1");
  flag("count", "1");
  EXPECT_THAT(found(), ElementsAre("flag --rules[0].name: rules: can only be set in the file",
                                   "flag --all.cuont: all.cuont: no such setting; did you mean "
                                   "'all.count'?",
                                   "flag --count: count: no such setting; 'count' is a setting of "
                                   "[all]"));
}

TEST_F(Loading, RepeatedTablesBecomeElementsWithLines) {
  file("[[rules]]\nname = 'a'\n[[rules]]\nname = 'b'\nlevel = 10\n");
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[1].name, "b");
  EXPECT_EQ(origin("rules[0].name"), "file s.toml:2");
  EXPECT_THAT(found(), ElementsAre("s.toml:5: rules[1].level: 10 is too large; allowed is 0..9"));
}

TEST_F(Loading, AConflictBetweenSettingsNamesTheLineOfItsSubject) {
  file("[all]\nmode = 'slow'\ncount = 9\n");
  settings.check(problems);
  EXPECT_THAT(found(), ElementsAre("s.toml:3: all: count is above 5, which needs mode fast"));
}

TEST_F(Loading, ASecretIsNeverQuoted) {
  file("[all]\ntoken = 123456\n");
  file("[all]\ntoken = '***'\n");
  flag("all.tokne", "hush");
  file("[all]\ntoken = 'hush'\n");
  for (const auto& problem : found()) {
    EXPECT_THAT(problem, Not(HasSubstr("123456")));
    EXPECT_THAT(problem, Not(HasSubstr("hush")));
  }
  EXPECT_EQ(problems.size(), 3u);
  for (const auto& shown : {settings_text(settings), settings_json(settings).dump(),
                            settings_schema(settings).dump(), settings_markdown(settings)})
    EXPECT_THAT(shown, Not(HasSubstr("hush")));
  EXPECT_THAT(settings_text(settings), HasSubstr("token = ***"));
}

TEST_F(Loading, PrintedValuesRoundTrip) {
  file(
      "[all]\non = false\nratio = 0.1\nwait = '30m15s'\nids = [3, 'GPU-x']\n[all.sizes]\na = 9\n"
      "[[rules]]\nname = 'r'\n");
  const auto values = settings_json(settings)["values"];
  Origins other_origins;
  Everything other;
  std::vector<Rule> other_rules;
  Settings again(other_origins);
  again.add("all", "", other);
  again.add_list("rules", "", true, other_rules);
  again.load(parse_document("v.json", values.dump(), Format::json, problems), problems);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(settings_json(again)["values"], values);
}

TEST_F(Loading, TheTextIsReadableInEightyColumns) {
  std::istringstream lines(settings_text(settings));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(Loading, AJsonKeyWithADotIsNotASetting) {
  settings.load(parse_document("s.json", R"({"all.count": 5})", Format::json, problems), problems);
  EXPECT_EQ(all.count, 4);
  EXPECT_THAT(found(), ElementsAre(StartsWith("s.json:1: all.count: no such setting")));
}

}  // namespace
}  // namespace sluice
