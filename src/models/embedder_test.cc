#include "models/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/error.h"
#include "models/folder_for_tests.h"

namespace sluice::models {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::string_view>;

class EmbedderTest : public ::testing::Test {
 protected:
  Embedder open(const EmbedOptions& options = {}) {
    return Embedder::open(folder_.path(), workers_, options);
  }
  static std::vector<float> vectors(const Embedder& embedder, const Texts& texts) {
    std::vector<float> made(texts.size() * embedder.dimensions());
    EXPECT_TRUE(embedder.embed(texts, made).errors.empty());
    return made;
  }

  FolderForTests folder_{"sluice-embedder"};
  compute::Workers workers_{2};
};

TEST_F(EmbedderTest, ThreadsThatEmbedAtOnceGetWhatOneGets) {
  const Embedder embedder = open();
  const Texts texts{"one lease", "per gpu", "gpu gpu gpu one", "lease"};
  const std::vector<float> want = vectors(embedder, texts);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const std::vector<float> got = vectors(embedder, {texts[i]});
        const std::size_t width = embedder.dimensions();
        EXPECT_TRUE(std::equal(got.begin(), got.end(),
                               want.begin() + static_cast<std::ptrdiff_t>(i * width)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EmbedderTest, EmptyTextsAreErrorsAndLongOnesAreCut) {
  const Embedder embedder = open({.max_length = 4});
  std::vector<float> made(4 * embedder.dimensions(), -1);
  const Embedded result = embedder.embed(Texts{"one", "", "one lease per gpu", " \n"}, made);
  ASSERT_EQ(result.errors.size(), 2u);
  EXPECT_EQ(result.errors[0].text, 1u);
  EXPECT_EQ(result.errors[1].text, 3u);
  EXPECT_THAT(result.truncated, ElementsAre(2));
  EXPECT_EQ(result.tokens, 3u + 4u);
  EXPECT_EQ(made[embedder.dimensions()], 0);
}

TEST_F(EmbedderTest, ATextBehindAPromptIsEmptyByItself) {
  const Embedder embedder = open({.prompt = "gpu: "});
  std::vector<float> made(2 * embedder.dimensions());
  const Embedded result = embedder.embed(Texts{"\t", "one"}, made);
  ASSERT_EQ(result.errors.size(), 1u);
  EXPECT_EQ(result.errors[0].text, 0u);
  EXPECT_EQ(std::vector<float>(made.begin() + 16, made.end()), vectors(open(), {"gpu: one"}));
}

TEST_F(EmbedderTest, OptionsChangePoolingLengthAndDimensions) {
  const std::vector<float> plain = vectors(open(), {"one lease"});
  const std::vector<float> first =
      vectors(open({.pooling = kernels::TokenPooling::first}), {"one lease"});
  EXPECT_NE(plain, first);
  const Embedder small = open({.normalize = true, .dimensions = 3});
  EXPECT_EQ(small.dimensions(), 3u);
  const std::vector<float> got = vectors(small, {"one lease"});
  EXPECT_NEAR(std::hypot(got[0], got[1], got[2]), 1, 1e-6);
  EXPECT_NEAR(got[0] * plain[1], got[1] * plain[0], 1e-6);
  EXPECT_THROW(open({.dimensions = 17}), Error);
  EXPECT_THROW(open({.max_length = 33}), Error);
}

TEST_F(EmbedderTest, NoTextsAndWrongRoomAreHandled) {
  const Embedder embedder = open();
  EXPECT_TRUE(embedder.embed({}, {}).errors.empty());
  std::vector<float> made(5);
  EXPECT_THROW(embedder.embed(Texts{"one"}, made), Error);
}

}  // namespace
}  // namespace sluice::models
