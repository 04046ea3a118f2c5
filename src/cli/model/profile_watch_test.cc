#include "cli/model/profile_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

device::GpuConfig typed(std::string gpu_type) {
  device::GpuConfig config;
  config.gpu_type = std::move(gpu_type);
  return config;
}

watch::Snapshot seen(std::string state, std::vector<std::string> uuids) {
  watch::Snapshot snapshot;
  snapshot.sampler.state = std::move(state);
  for (auto& uuid : uuids) {
    watch::GpuView view{};
    view.gpu.uuid = view.gpu.bus = uuid;
    view.gpu.name = "NVIDIA H200";
    view.gpu.memory_total = 140ull << 30;
    view.gpu.card = device::find_card(view.gpu.name, view.gpu.memory_total);
    snapshot.gpus.push_back(view);
  }
  return snapshot;
}

TEST(ProfileWatch, AMismatchNamesBothCardsOnce) {
  ProfileWatch watch(typed("A100"));
  EXPECT_THAT(watch.new_warnings(seen("running", {"GPU-1"})),
              ElementsAre(AllOf(HasSubstr("A100"), HasSubstr("H200"))));
  EXPECT_THAT(watch.new_warnings(seen("running", {"GPU-1"})), IsEmpty());
}

TEST(ProfileWatch, AGpuThatAppearsLaterIsCheckedToo) {
  ProfileWatch watch(typed("A100"));
  EXPECT_THAT(watch.new_warnings(seen("running", {"GPU-1"})).size(), 1);
  EXPECT_THAT(watch.new_warnings(seen("running", {"GPU-1", "GPU-2"})),
              ElementsAre(HasSubstr("GPU-2")));
  EXPECT_THAT(watch.new_warnings(seen("running", {"GPU-1"})), IsEmpty());
}

TEST(ProfileWatch, NoGpuIsReportedOnlyAfterTheSearch) {
  ProfileWatch watch(typed("A100"));
  EXPECT_THAT(watch.new_warnings(seen("starting", {})), IsEmpty());
  EXPECT_THAT(watch.new_warnings(seen("not needed: no NVIDIA driver", {})),
              ElementsAre(HasSubstr("no GPU was found")));
}

TEST(ProfileWatch, AMatchingProfileGivesNoWarning) {
  ProfileWatch right(typed("H200")), none(typed(""));
  EXPECT_THAT(right.new_warnings(seen("running", {"GPU-1"})), IsEmpty());
  EXPECT_THAT(none.new_warnings(seen("running", {"GPU-1"})), IsEmpty());
  EXPECT_THAT(none.new_warnings(seen("running", {})), IsEmpty());
}

}  // namespace
}  // namespace sluice::cli
