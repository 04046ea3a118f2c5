#include "device/cuda/device_scope.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace sluice::device {
namespace {

// CUDA as it is since version 12: setting a device makes its context.
struct FakeCuda {
  int current = 0, sets = 0;
  std::set<int> contexts;
  bool broken = false;
};
FakeCuda fake;

void set(int device) {
  if (fake.broken) throw std::runtime_error("no such device");
  ++fake.sets;
  fake.current = device;
  fake.contexts.insert(device);
}
const DeviceCalls kFake{
    .current = [] { return fake.current; },
    .set = set,
    .has_context = [](int device) noexcept -> bool { return fake.contexts.contains(device); },
    .restore = [](int device) noexcept { set(device); }};

class DeviceScopeTest : public testing::Test {
 protected:
  DeviceScopeTest() { fake = {}; }
};

TEST_F(DeviceScopeTest, MakesNoContextOnADeviceThatWasOnlyTheDefault) {
  { const DeviceScope on({1}, kFake); }
  EXPECT_EQ(fake.contexts, std::set<int>{1});
}

TEST_F(DeviceScopeTest, RestoresADeviceThatWasSet) {
  set(2);
  {
    const DeviceScope on({1}, kFake);
    EXPECT_EQ(fake.current, 1);
  }
  EXPECT_EQ(fake.current, 2);
  EXPECT_EQ(fake.contexts, (std::set<int>{1, 2}));
}

TEST_F(DeviceScopeTest, LeavesTheDeviceThatIsCurrentAlone) {
  { const DeviceScope on({0}, kFake); }
  EXPECT_EQ(fake.sets, 0);
  EXPECT_TRUE(fake.contexts.empty());
}

TEST_F(DeviceScopeTest, Nests) {
  set(0);
  {
    const DeviceScope outer({1}, kFake);
    { const DeviceScope inner({2}, kFake); }
    EXPECT_EQ(fake.current, 1);
  }
  EXPECT_EQ(fake.current, 0);
}

TEST_F(DeviceScopeTest, ADeviceThatCannotBeSetChangesNothing) {
  set(0);
  fake.broken = true;
  EXPECT_THROW(DeviceScope({1}, kFake), std::runtime_error);
  EXPECT_EQ(fake.current, 0);
  EXPECT_EQ(fake.sets, 1);
}

}  // namespace
}  // namespace sluice::device
