#include "device/sysfs.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sysfs, NumbersAreIntegersOrAbsent) {
  EXPECT_EQ(to_int(" 42\n"), 42);
  EXPECT_EQ(to_int("-1"), -1);
  EXPECT_EQ(to_int("0x1002"), 0x1002);
  EXPECT_FALSE(to_int(""));
  EXPECT_FALSE(to_int("max"));
  EXPECT_FALSE(to_int("12 W"));
}

TEST(Sysfs, SizesTakeTheKernelsSuffixesAndRefuseOverflow) {
  EXPECT_EQ(to_size("48K"), 48u << 10);
  EXPECT_EQ(to_size("2M\n"), 2u << 20);
  EXPECT_EQ(to_size("7"), 7u);
  EXPECT_FALSE(to_size("K"));
  EXPECT_FALSE(to_size("99999999999999999999"));
  EXPECT_FALSE(to_size("18446744073709551615G"));
}

TEST(Sysfs, CpuListsRoundTrip) {
  EXPECT_THAT(cpu_list("0-2,7"), ElementsAre(0, 1, 2, 7));
  EXPECT_THAT(cpu_list(""), IsEmpty());
  EXPECT_THAT(cpu_list("0-4294967295"), IsEmpty()) << "an absurd range is not followed";
  EXPECT_EQ(to_cpu_list({0, 1, 2, 7}), "0-2,7");
  EXPECT_EQ(to_cpu_list({}), "");
}

TEST(Sysfs, NumberedNamesComeInTheOrderOfTheirNumbers) {
  Tree tree;
  tree.file("/c/cpu10/x", "").file("/c/cpu2/x", "").file("/c/cpufreq/x", "").file("/c/node0", "");
  EXPECT_THAT(numbered(tree.root() / "c", "cpu"), ElementsAre("cpu2", "cpu10"));
  EXPECT_THAT(numbered(tree.root() / "missing", "cpu"), IsEmpty());
}

// Any user may put one in the place of a file that is looked for in a shared folder.
TEST(Sysfs, AFifoOrADeviceIsAbsentAndNotWaitedFor) {
  const auto fifo =
      std::filesystem::temp_directory_path() / ("sluice-sysfs-fifo-" + std::to_string(::getpid()));
  const auto link = fifo.string() + "-link";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", link);
  EXPECT_FALSE(read_text(fifo));
  EXPECT_FALSE(read_int(link));
  std::filesystem::remove(fifo);
  std::filesystem::remove(link);
}

TEST(Sysfs, AFileThatIsNotThereIsAbsent) {
  EXPECT_FALSE(read_line("/nonexistent/file"));
  EXPECT_FALSE(read_int("/nonexistent/file"));
  EXPECT_FALSE(read_line("/")) << "a folder is not a file";
}

}  // namespace
}  // namespace sluice::device
