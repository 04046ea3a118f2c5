#include "serve/http/target.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace sluice::serve::http {
namespace {

TEST(PercentDecode, EscapesAreDecodedIntoBytes) {
  EXPECT_EQ(percent_decode("a%20b%2Fc", false), "a b/c");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  EXPECT_EQ(percent_decode("a+b", false), "a+b");
}

TEST(PercentDecode, TruncatedNonHexAndNulEscapesAreRefused) {
  for (const auto* bad : {"%", "%2", "a%zz", "%00", "x%-1"})
    EXPECT_FALSE(percent_decode(bad, true)) << bad;
}

TEST(AbsoluteForm, AbsoluteFormIsSplitIntoHostAndPath) {
  for (const auto& [target, authority, path] :
       {std::tuple{"http://host:8000/a?b", "host:8000", "/a?b"},
        std::tuple{"HTTPS://[::1]", "[::1]", "/"},
        std::tuple{"http://host?a=/b", "host", "/?a=/b"}}) {
    const auto form = absolute_form(target);
    ASSERT_TRUE(form) << target;
    EXPECT_EQ(form->authority, authority);
    EXPECT_EQ(form->path, path);
  }
  for (const auto* other : {"", "a", "*", "/a", "ftp://host/a", "http://", "http:///a", "http:/a"})
    EXPECT_FALSE(absolute_form(other)) << other;
}

TEST(Query, ParametersAreReadInAnyOrder) {
  const Query query("b=2&&a=x%26y&flag");
  EXPECT_EQ(query.text("a", ""), "x&y");
  EXPECT_EQ(query.number("b", 0, 0, 10), 2);
  EXPECT_EQ(query.text("flag", "absent"), "");
  EXPECT_EQ(query.number("absent", 7, 0, 10), 7);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return std::string(e.reason());
  }
  return "accepted";
}

TEST(Query, TheInvalidParameterIsNamed) {
  EXPECT_NE(refusal([] { Query("points=%zz"); }).find("'%zz'"), std::string::npos);
  EXPECT_NE(refusal([] { Query("a=1&a=2"); }).find("'a' is given twice"), std::string::npos);
  for (const auto* bad : {"points=", "points=1x", "points=1e99", "points=nan", "points=-1"})
    EXPECT_NE(refusal([&] { Query(bad).number("points", 1, 1, 100); }).find("from 1 to 100"),
              std::string::npos)
        << bad;
}

TEST(Query, TimesAreAbsoluteOrRelativeToNow) {
  const Query query("from=-60.5&to=1700000000000.6&end=0");
  EXPECT_EQ(query.time_ms("from", 0, 1'000'000), 939'500);
  EXPECT_EQ(query.time_ms("to", 0, 1'000'000), 1'700'000'000'001);
  EXPECT_EQ(query.time_ms("end", -1, 1'000'000), 1'000'000);
  EXPECT_EQ(query.time_ms("absent", -3600, 10'000'000), 6'400'000);
  EXPECT_THROW(Query("from=1e16").time_ms("from", 0, 0), Error);
}

TEST(Query, AnIntegerHasNoFraction) {
  EXPECT_EQ(Query("points=15").integer("points", 600, 1, 10000), 15);
  EXPECT_EQ(Query("").integer("points", 600, 1, 10000), 600);
  for (const auto* bad : {"points=1.5", "points=1e3", "points=", "points=0", "points=10001",
                          "points=99999999999999999999", "points=0x10", "points=+5"})
    EXPECT_NE(refusal([&] {
                Query(bad).integer("points", 1, 1, 10000);
              }).find("an integer from 1 to 10000"),
              std::string::npos)
        << bad;
}

TEST(Query, TheNearestParameterIsSuggested) {
  constexpr std::string_view known[] = {"device", "metrics"};
  EXPECT_EQ(
      refusal([&] { Query("metric=a").only(known); }),
      "no query parameter is named 'metric' (known: device, metrics); did you mean 'metrics'?");
  EXPECT_EQ(refusal([&] { Query("x").only({}); }),
            "no query parameter is named 'x'; this route takes none");
}

TEST(Query, AllSpellingsHaveOneCanonicalForm) {
  EXPECT_EQ(canonical_query(""), "");
  EXPECT_EQ(canonical_query("&&"), "");
  EXPECT_EQ(canonical_query("a=b&c"), canonical_query("c=&%61=%62&"));
  EXPECT_NE(canonical_query("a=b"), canonical_query("a=b&c"));
  EXPECT_NE(canonical_query("a=b%26c"), canonical_query("a=b&c"));
  EXPECT_NE(canonical_query("ab="), canonical_query("a=b"));
  EXPECT_EQ(canonical_query("a=%"), std::nullopt);
}

TEST(Query, ALongQueryIsRefusedQuickly) {
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += "a" + std::to_string(i) + "&";
  EXPECT_FALSE(query_too_long(many).empty());
  EXPECT_THROW(Query{many}, Error);
  EXPECT_TRUE(query_too_long("a=1&b=2").empty());
}

}  // namespace
}  // namespace sluice::serve::http
