// Checkpoints on a disk that is slow to answer: this program has an fdatasync() of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "broker/broker_for_tests.h"
#include "broker/store/store.h"

namespace {

std::atomic<int> disk_ms{0};

}  // namespace

extern "C" int fdatasync(int fd) {
  std::this_thread::sleep_for(std::chrono::milliseconds(disk_ms.load()));
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace sluice::broker {
namespace {

const Moment kMorning{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};
constexpr std::uintmax_t kFrameBytes = 24 + 4096;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    options.checkpoint_pages = 400;
    store.emplace(options);
    last = store->load(kMorning).last_id;
    put(1, {});  // SQLite waits for the disk once when a log begins
    disk_ms = 250;
  }
  void TearDown() override { disk_ms = 0; }

  // The longest that one of them took.
  Steady::duration put(int count, std::chrono::microseconds pause) {
    Steady::duration longest{};
    for (int i = 0; i < count; ++i) {
      Lease lease;
      lease.id = ++last, lease.secret = 7, lease.state = State::ended;
      lease.request = lease_request("scout", 8);
      lease.requested_at = lease.granted_at = lease.expires_at = lease.ended_at = kMorning.now;
      const Lease* row = &lease;
      const auto begun = Steady::now();
      store->write({&row, 1}, kMorning);
      longest = std::max(longest, Steady::now() - begun);
      std::this_thread::sleep_for(pause);
    }
    return longest;
  }
  std::uintmax_t log_size() const { return std::filesystem::file_size(path + "-wal"); }

  TemporaryFolder folder;
  Store::Options options{folder.path + "/state", "boot"};
  std::string path = options.dir + "/leases.db";
  LeaseId last = 0;
  std::optional<Store> store;
};

TEST_F(CheckpointTest, NoLeaseWaitsForASlowDisk) {
  EXPECT_LT(put(600, std::chrono::milliseconds(5)), std::chrono::milliseconds(250));
  EXPECT_GT(log_size(), 400 * kFrameBytes);
}

TEST_F(CheckpointTest, TheLogOfASlowDiskStartsOverInAPause) {
  put(300, std::chrono::milliseconds(1));
  const auto before = log_size();
  std::this_thread::sleep_for(std::chrono::seconds(4));
  put(1, {});
  EXPECT_EQ(log_size(), before);
}

TEST_F(CheckpointTest, TheLogOfASlowDiskIsBounded) {
  disk_ms = 100;
  put(3000, std::chrono::milliseconds(1));  // 9,000 frames
  EXPECT_LT(log_size(), 2 * 8 * 400 * kFrameBytes);
}

}  // namespace
}  // namespace sluice::broker
