#include "models/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "models/folder_for_tests.h"
#include "models/registry/sha256.h"

namespace sluice::models {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RegistryTest : public ::testing::Test {
 protected:
  ~RegistryTest() override { fs::remove_all(registry_.folder()); }

  template <class Work>
  static std::string refusal(const Work& work) {
    try {
      work();
      return "none";
    } catch (const Error& error) {
      return std::string(error.reason());
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const RegisteredModel& model : registry_.list()) all.push_back(model.name);
    return all;
  }

  FolderForTests source_{"sluice-registered"};
  const Registry registry_{source_.path().string() + "-registry"};
};

TEST_F(RegistryTest, HashesAreThoseOfTheStandard) {
  Sha256 hash;
  hash.add("a");
  hash.add("bc");
  EXPECT_EQ(hash.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(RegistryTest, AModelIsAddedListedVerifiedAndRemoved) {
  source_.write("README.md", "---\ntags: x\nlicense: apache-2.0\n---\nA model.\n");
  source_.write("1_Pooling/config.json", "{}");
  source_.write("pytorch_model.bin", "not copied");
  source_.write(".cache/file", "not copied");
  fs::create_symlink(source_.path() / "config.json", source_.path() / "linked.json");
  std::uint64_t last = 0, all = 0;
  const RegisteredModel added =
      registry_.add(source_.path(), "small-1.0", [&](std::uint64_t done, std::uint64_t of) {
        EXPECT_GE(done, last);
        last = done, all = of;
      });
  EXPECT_EQ(last, all);
  EXPECT_EQ(added.license, "apache-2.0");
  EXPECT_THAT(names(), ElementsAre("small-1.0"));
  const auto found = registry_.find("small-1.0");
  ASSERT_TRUE(found);
  std::vector<std::string> paths;
  for (const RegisteredFile& file : found->files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("1_Pooling/config.json", "README.md", "config.json", "linked.json",
                                 "model.safetensors", "vocab.txt"));
  EXPECT_THAT(registry_.verify(*found), ElementsAre());
  EXPECT_EQ(find_model("small-1.0", registry_), found->folder);
  EXPECT_EQ(find_model(source_.path().string(), registry_), source_.path());
  std::ofstream(found->folder / "vocab.txt", std::ios::app) << "more";
  fs::remove(found->folder / "README.md");
  EXPECT_THAT(registry_.verify(*found),
              ElementsAre("README.md is missing", "vocab.txt has other contents"));
  ASSERT_EQ(::mkfifo((found->folder / "README.md").c_str(), 0600), 0);
  EXPECT_THAT(registry_.verify(*found),
              ElementsAre("README.md is no regular file", "vocab.txt has other contents"));
  registry_.remove("small-1.0");
  EXPECT_THAT(names(), ElementsAre());
}

// A link to a file of /proc is regular and of size 0, and may be read for ever.
TEST_F(RegistryTest, AFileThatHasMoreBytesThanItsSizeIsRefused) {
  fs::create_symlink("/proc/self/pagemap", source_.path() / "extra.json");
  EXPECT_THAT(refusal([&] { registry_.add(source_.path(), "endless"); }),
              HasSubstr("extra.json has more bytes than its size"));
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(RegistryTest, AReadmeThatHasNoEndNamesNoLicense) {
  const fs::path readme = source_.path() / "README.md";
  ASSERT_EQ(::mkfifo(readme.c_str(), 0600), 0);
  EXPECT_EQ(registry_.add(source_.path(), "fifo").license, "");
  fs::remove(readme);
  fs::create_symlink("/dev/zero", readme);
  EXPECT_EQ(registry_.add(source_.path(), "zero").license, "");
  fs::remove(readme);
  fs::create_symlink("nothing", readme);
  EXPECT_EQ(registry_.add(source_.path(), "nothing").license, "");
  EXPECT_THAT(names(), ElementsAre("fifo", "nothing", "zero"));
}

TEST_F(RegistryTest, ALicenseIsShownAsTextAndANameThatIsNotUtf8IsRefused) {
  source_.write("README.md", "---\nlicense: mit\xff\x1b[31m\n---\n");
  EXPECT_EQ(registry_.add(source_.path(), "one").license, "mit\\xff\\x1b[31m");
  EXPECT_EQ(registry_.find("one")->license, "mit\\xff\\x1b[31m");
  source_.write("a\xff.json", "{}");
  EXPECT_THAT(refusal([&] { registry_.add(source_.path(), "two"); }),
              AllOf(HasSubstr("not UTF-8"), HasSubstr("a\\xff.json"), HasSubstr("rename")));
  EXPECT_THAT(names(), ElementsAre("one"));
}

TEST_F(RegistryTest, TheMainSnapshotOfAHubsCacheCounts) {
  const fs::path& folder = source_.path();
  source_.write("snapshots/abc/config.json", "{}");
  EXPECT_EQ(find_model(folder.string(), registry_), folder);
  source_.write("refs/main", "abc\n");
  EXPECT_EQ(find_model(folder.string(), registry_), folder / "snapshots" / "abc");
  source_.write("refs/main", "../..");
  EXPECT_EQ(find_model(folder.string(), registry_), folder);
}

TEST_F(RegistryTest, ARefThatIsNoSmallFileIsRefusedByName) {
  const fs::path folder = source_.path(), ref = folder / "refs" / "main";
  const auto refused = [&] { return refusal([&] { find_model(folder.string(), registry_); }); };
  const auto named =
      AllOf(HasSubstr(ref.string()), HasSubstr("not a regular file of at most 4096"));
  source_.write("refs/main", std::string(4097, 'a'));
  EXPECT_THAT(refused(), named);
  fs::remove(ref);
  ASSERT_EQ(::mkfifo(ref.c_str(), 0600), 0);
  EXPECT_THAT(refused(), named);
  fs::remove(ref);
  fs::create_symlink("/dev/zero", ref);
  EXPECT_THAT(refused(), named);
  fs::remove(ref);
  fs::create_directory(ref);
  EXPECT_THAT(refused(), named);
}

TEST_F(RegistryTest, NamesAreCheckedAndNotTakenTwice) {
  for (const std::string name : {"", "..", ".x", "a/b", "a b", "ä"})
    EXPECT_THAT(refusal([&] { registry_.add(source_.path(), name); }), HasSubstr("is no name"));
  registry_.add(source_.path(), "one");
  EXPECT_THAT(refusal([&] { registry_.add(source_.path(), "one"); }), HasSubstr("already"));
  EXPECT_THAT(refusal([&] { registry_.remove("two"); }), HasSubstr("no model 'two'"));
  EXPECT_THAT(refusal([&] { find_model("two", registry_); }), HasSubstr("models are one"));
}

TEST_F(RegistryTest, FoldersWithoutAModelLeaveNothing) {
  fs::remove(source_.path() / "model.safetensors");
  EXPECT_THAT(refusal([&] { registry_.add(source_.path(), "one"); }), HasSubstr("neither"));
  EXPECT_THAT(refusal([&] { registry_.add("/nonexistent", "one"); }), HasSubstr("no folder"));
  EXPECT_FALSE(fs::exists(registry_.folder() / "one"));
}

TEST_F(RegistryTest, ADamagedManifestIsNamed) {
  const RegisteredModel added = registry_.add(source_.path(), "one");
  std::ofstream(added.folder / "sluice-model.json") << R"({"name": 5})";
  EXPECT_THAT(refusal([&] { registry_.find("one"); }), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace sluice::models
