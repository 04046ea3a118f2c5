#include "serve/http/target.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace sluice::serve::http {
namespace {

TEST(PercentDecode, TurnsEscapesIntoBytes) {
  EXPECT_EQ(percent_decode("a%20b%2Fc", false), "a b/c");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  EXPECT_EQ(percent_decode("a+b", false), "a+b");
}

TEST(PercentDecode, RefusesWhatIsCutShortNotHexOrNul) {
  for (const auto* bad : {"%", "%2", "a%zz", "%00", "x%-1"})
    EXPECT_FALSE(percent_decode(bad, true)) << bad;
}

TEST(OriginForm, IsThePathWhateverTheTargetsForm) {
  EXPECT_EQ(origin_form("/a?b=c"), "/a?b=c");
  EXPECT_EQ(origin_form("http://host:8000/a?b"), "/a?b");
  EXPECT_EQ(origin_form("https://host"), "/");
  for (const auto* bad : {"", "a", "*", "ftp://host/a"}) EXPECT_FALSE(origin_form(bad)) << bad;
}

TEST(Query, ReadsParametersInAnyOrder) {
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
    return e.what();
  }
  return "accepted";
}

TEST(Query, NamesTheParameterThatIsWrong) {
  EXPECT_NE(refusal([] { Query("points=%zz"); }).find("'%zz'"), std::string::npos);
  EXPECT_NE(refusal([] { Query("a=1&a=2"); }).find("'a' is given twice"), std::string::npos);
  for (const auto* bad : {"points=", "points=1x", "points=1e99", "points=nan", "points=-1"})
    EXPECT_NE(refusal([&] { Query(bad).number("points", 1, 1, 100); }).find("from 1 to 100"),
              std::string::npos)
        << bad;
}

TEST(Query, SuggestsTheParameterThatWasMeant) {
  constexpr std::string_view known[] = {"device", "metrics"};
  EXPECT_NE(refusal([&] { Query("metric=a").only(known); }).find("did you mean 'metrics'"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::serve::http
