#include "engine/io/model_stamp.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "engine/plan/plan.h"
#include "formats/onnx/build_for_tests.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using onnx::Message;

class ModelStampTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path put(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // An .onnx file with a tensor in another file.
  fs::path model_with(std::string_view location) const {
    const Message tensor =
        Message().integer(1, 2).integer(2, 1).bytes(8, "w").integer(14, 1).message(
            13, Message().bytes(1, "location").bytes(2, location));
    return put("m.onnx", onnx::model(Message().message(5, tensor)).text());
  }
  // Changes bytes in the middle of the file, outside all samples; size and time are kept.
  static void replace_unseen(const fs::path& file) {
    struct stat before {};
    ASSERT_EQ(::stat(file.c_str(), &before), 0);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // a tick of the file system's clock
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(9000);
    out << "other weights";
    out.close();
    const timespec times[] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("model-stamp-" + std::to_string(::getpid()));
};

TEST_F(ModelStampTest, ReplacedWeightsOfEqualSizeAndTimeChangeTheStamp) {
  const std::string weights(1'000'000, 'a');
  for (const std::string name : {"w.onnx_data", "weights", "m.onnx.data"}) {
    const fs::path model = model_with(name), data = put(name, weights);
    const std::string stamp = model_stamp(model), content = model_content(model);
    const std::string version = model_version(model);
    require_version(model, version);
    EXPECT_EQ(model_stamp(model), stamp);
    replace_unseen(data);
    EXPECT_NE(model_stamp(model), stamp) << name;
    EXPECT_NE(model_content(model), content) << name;
    EXPECT_THROW(require_version(model, version), Error);
  }
}

TEST_F(ModelStampTest, EveryFileOfAHuggingFaceFolderChangesTheStamp) {
  put("config.json", "{}");
  put("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two"}})");
  for (const std::string name : {"one.safetensors", "two"}) put(name, std::string(500'000, 'a'));
  for (const std::string name :
       {"one.safetensors", "two", "config.json", "model.safetensors.index.json"}) {
    const std::string stamp = model_stamp(folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (fs::file_size(folder_ / name) > 10'000)
      replace_unseen(folder_ / name);
    else
      std::ofstream(folder_ / name, std::ios::app) << " ";
    EXPECT_NE(model_stamp(folder_), stamp) << name;
  }
  const std::string stamp = model_stamp(folder_);
  put("README.md", "not read");
  EXPECT_EQ(model_stamp(folder_), stamp);
}

TEST_F(ModelStampTest, ContentHashIsIndependentOfTheLocation) {
  const fs::path model = model_with("weights");
  put("weights", "12345678");
  const std::string content = model_content(model);
  fs::create_directories(folder_ / "copy");
  fs::copy(model, folder_ / "copy");
  fs::copy(folder_ / "weights", folder_ / "copy");
  EXPECT_EQ(model_content(folder_ / "copy" / "m.onnx"), content);
  EXPECT_NE(model_stamp(folder_ / "copy" / "m.onnx"), model_stamp(model));
}

TEST_F(ModelStampTest, SamplesCoverTheFirstAndTheLastByte) {
  for (const std::size_t size : {std::size_t{65'537}, std::size_t{65'550}, ~std::size_t{0}}) {
    EXPECT_EQ(sample_offset(size, 0), 0u);
    EXPECT_EQ(sample_offset(size, 15), size - 4096);
    for (std::size_t i = 1; i < 16; ++i)
      EXPECT_LE(sample_offset(size, i - 1), sample_offset(size, i));
  }
}

TEST_F(ModelStampTest, BareNamesReferToTheCurrentFolder) {
  const fs::path model = model_with("weights"), before = fs::current_path();
  put("weights", "12345678");
  const std::string content = model_content(model);
  fs::current_path(folder_);
  EXPECT_EQ(model_content("m.onnx"), content);
  fs::current_path(before);
}

TEST_F(ModelStampTest, InaccessiblePathsAreNamedInTheError) {
  const fs::path path = folder_ / std::string(300, 'n');  // longer than names are
  for (const auto& look : {model_stamp, model_content, model_version}) try {
      look(path);
      ADD_FAILURE() << "it was looked at";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(path.string()));
    }
}

TEST_F(ModelStampTest, MissingFilesAreNotFound) {
  EXPECT_THROW(model_stamp(folder_ / "none.onnx"), Error);
  EXPECT_THAT(model_files(folder_), ::testing::IsEmpty());
  EXPECT_FALSE(device_stamp().empty());
}

}  // namespace
}  // namespace sluice::engine
