#include "models/config/sentence_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/folder_for_tests.h"

namespace sluice::models {
namespace {

using ::testing::HasSubstr;

std::string module(const std::string& kind, const std::string& path) {
  return R"({"type": "sentence_transformers.models.)" + kind + R"(", "path": ")" + path + "\"}";
}

class SentenceFolderTest : public ::testing::Test {
 protected:
  SentenceFolder read() const { return read_sentence_folder(folder_.path()); }
  std::string refusal() const {
    try {
      read();
      return "none";
    } catch (const Error& error) {
      return std::string(error.reason());
    }
  }

  FolderForTests folder_{"sluice-sentence-folder"};
};

TEST_F(SentenceFolderTest, WithoutModulesTokensArePooledByTheirMean) {
  const SentenceFolder folder = read();
  EXPECT_EQ(folder.pooling, kernels::TokenPooling::mean);
  EXPECT_FALSE(folder.normalize);
  EXPECT_EQ(folder.max_length, FolderForTests::kPositions);
}

TEST_F(SentenceFolderTest, ModulesSayPoolingLengthAndNormalization) {
  folder_.write("modules.json", "[" + module("Transformer", "") + "," + module("Pooling", "1") +
                                    "," + module("Normalize", "2") + "]");
  folder_.write("1/config.json",
                R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": 20})");
  const SentenceFolder folder = read();
  EXPECT_EQ(folder.pooling, kernels::TokenPooling::first);
  EXPECT_TRUE(folder.normalize);
  EXPECT_EQ(folder.max_length, 20);
}

TEST_F(SentenceFolderTest, RobertasHaveTwoPositionsLess) {
  folder_.write("config.json", R"({"model_type": "xlm-roberta", "max_position_embeddings": 514})");
  EXPECT_EQ(read().max_length, 512);
}

TEST_F(SentenceFolderTest, BadFilesAreNamedWithTheReason) {
  folder_.write("modules.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("modules.json holds no list of modules"));
  folder_.write("modules.json", "[], \"more\": [1]");
  EXPECT_THAT(refusal(), HasSubstr("modules.json"));
  folder_.write("modules.json", "[5]");
  EXPECT_THAT(refusal(), HasSubstr("something else than modules"));
  folder_.write("modules.json", "[" + module("Pooling", "..") + "]");
  EXPECT_THAT(refusal(), HasSubstr("a folder outside of it: '..'"));
  folder_.write("modules.json", "[" + module("Pooling", "1") + "]");
  folder_.write("1/config.json", R"({"pooling_mode_mean_tokens": 1})");
  EXPECT_THAT(refusal(), HasSubstr("is not true or false"));
  folder_.write("modules.json", "[" + module("Transformer", "") + "]");
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": "long"})");
  EXPECT_THAT(refusal(), HasSubstr("max_seq_length"));
  folder_.write("sentence_bert_config.json", "{}");
  folder_.write("config_sentence_transformers.json", R"({"default_prompt_name": "query"})");
  EXPECT_THAT(refusal(), HasSubstr("there is no prompt 'query'"));
}

}  // namespace
}  // namespace sluice::models
