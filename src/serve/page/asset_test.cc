#include "serve/page/asset.h"

#include <gtest/gtest.h>

namespace sluice::serve::page {
namespace {

TEST(Assets, TheChartLibraryIsEmbedded) {
  const auto* script = find_asset("/assets/dygraph.min.js");
  ASSERT_NE(script, nullptr);
  EXPECT_EQ(script->type, "text/javascript; charset=utf-8");
  EXPECT_GT(script->bytes.size(), 50000u);
  EXPECT_NE(script->bytes.find("Dygraph"), std::string_view::npos);
}

TEST(Assets, EachAssetHasAnEtagOfItsBytes) {
  for (const auto& a : assets()) {
    EXPECT_EQ(a.etag.size(), 18u) << a.path;
    for (const auto& b : assets())
      EXPECT_EQ(a.etag == b.etag, a.bytes == b.bytes) << a.path << b.path;
  }
}

TEST(Assets, ThePageLoadsNothingFromOtherHosts) {
  const auto* page = find_asset("/");
  ASSERT_NE(page, nullptr);
  for (const auto* remote : {"src=\"http", "href=\"http", "src=\"//", "href=\"//"})
    EXPECT_EQ(page->bytes.find(remote), std::string_view::npos) << remote;
}

TEST(Assets, MissingAssetsAreNull) {
  EXPECT_EQ(find_asset("/assets/../CMakeLists.txt"), nullptr);
  EXPECT_EQ(find_asset(""), nullptr);
}

}  // namespace
}  // namespace sluice::serve::page
