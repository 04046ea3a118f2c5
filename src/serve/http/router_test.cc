#include "serve/http/router.h"

#include <gtest/gtest.h>

namespace sluice::serve::http {
namespace {

Response nothing(const Request&) { return {}; }

struct Routing : testing::Test {
  Router router{{
      {Method::get, "/health", nothing},
      {Method::get, "/v1/leases", nothing},
      {Method::post, "/v1/leases", nothing},
      {Method::delete_, "/v1/leases/{id}", nothing},
      {Method::post, "/v1/leases/{id}/renew", nothing},
      {Method::get, "/assets/{file...}", nothing},
  }};
  Request request;

  Router::Match find(Method method, std::string target) {
    request.clear();
    request.method = method;
    request.target = std::move(target);
    return router.find(request);
  }
  Response refusal(Method method, std::string target) {
    const auto match = find(method, std::move(target));
    EXPECT_EQ(match.route, nullptr);
    return router.refusal(request, match);
  }
};

std::string header(const Response& response, std::string_view name) {
  for (const auto& [n, value] : response.headers)
    if (n == name) return value;
  return "";
}

TEST_F(Routing, AQueryIsNotPartOfThePath) {
  EXPECT_EQ(find(Method::get, "/health?x=/v1").route->pattern, "/health");
}

TEST_F(Routing, HeadFindsTheGetRoute) {
  EXPECT_EQ(find(Method::head, "/health").index, find(Method::get, "/health").index);
}

TEST_F(Routing, TheMethodChoosesAmongRoutesOfOnePath) {
  EXPECT_EQ(find(Method::get, "/v1/leases").index, 1u);
  EXPECT_EQ(find(Method::post, "/v1/leases").index, 2u);
}

TEST_F(Routing, ABracedSegmentIsCapturedDecoded) {
  EXPECT_EQ(find(Method::post, "/v1/leases/a%2Fb/renew").route->pattern, "/v1/leases/{id}/renew");
  EXPECT_EQ(request.captures, std::vector<std::string>{"a/b"});
}

TEST_F(Routing, ABracedSegmentIsNeverEmptyNorSeveral) {
  EXPECT_EQ(find(Method::delete_, "/v1/leases/").route, nullptr);
  EXPECT_EQ(find(Method::delete_, "/v1/leases/a/b").route, nullptr);
  EXPECT_EQ(find(Method::delete_, "/v1/leases/%zz").route, nullptr);
}

TEST_F(Routing, TheRestIsCapturedWithItsSlashes) {
  EXPECT_NE(find(Method::get, "/assets/icons/a.svg").route, nullptr);
  EXPECT_EQ(request.captures, std::vector<std::string>{"icons/a.svg"});
}

TEST_F(Routing, AnUnknownPathNamesTheNearestOne) {
  const auto response = refusal(Method::get, "/helth");
  EXPECT_EQ(response.status, 404);
  EXPECT_NE(response.body.find("did you mean '/health'"), std::string::npos) << response.body;
}

TEST_F(Routing, AWrongMethodListsTheAllowedOnes) {
  const auto response = refusal(Method::delete_, "/v1/leases");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(header(response, "Allow"), "GET, HEAD, POST, OPTIONS");
}

TEST_F(Routing, AnUnknownMethodIsEchoed) {
  find(Method::other, "/health");
  request.other_method = "BREW";
  const auto response = router.refusal(request, router.find(request));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(header(response, "Allow"), "GET, HEAD, OPTIONS");
  EXPECT_NE(response.body.find("\"BREW is not possible on /health\""), std::string::npos)
      << response.body;
}

TEST_F(Routing, OptionsListsTheMethodsOfAPath) {
  const auto response = refusal(Method::options, "/v1/leases/7");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(header(response, "Allow"), "DELETE, OPTIONS");
  EXPECT_EQ(refusal(Method::options, "*").status, 204);
  EXPECT_EQ(refusal(Method::options, "/nowhere").status, 404);
}

}  // namespace
}  // namespace sluice::serve::http
