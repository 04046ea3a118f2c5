#include "engine/session/programs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace sluice::engine {
namespace {

InputTypes one_input(std::int64_t size) { return {TensorType{DType::f32, {size}}}; }

// The state that the programs of a test share.
struct Table {
  ~Table() { over = true; }
  void use() {
    if (!over) std::async(std::launch::async, [this] { programs.at(one_input(1)); }).wait();
  }
  std::atomic<int> ended = 0;
  std::atomic<bool> over = false;
  Programs programs;
};

// A program with a slow destructor that needs the table: as on a GPU, where freeing memory waits
// for the device while other threads continue.
class Slow final : public Program {
 public:
  explicit Slow(Table& within) : within_(within) {}
  ~Slow() override {
    within_.use();
    ++within_.ended;
  }
  const Graph& graph() const noexcept override { return graph_; }
  const Schedule& schedule() const noexcept override { return schedule_; }
  std::vector<Tensor> run(std::span<const Tensor>, std::vector<StepTime>*) const override {
    return {};
  }
  std::size_t trim() const noexcept override {
    within_.use();
    return 1;
  }

 private:
  Table& within_;
  Graph graph_;
  Schedule schedule_;
};

void fill(Table& table, std::int64_t size) {
  const auto entry = table.programs.at(one_input(size));
  const Lock lock(entry->making);
  entry->made = true;
  entry->result.program = std::make_shared<Slow>(table);
  table.programs.add(*entry, entry->result.program);
}

// Each of these would deadlock if it held the lock.
TEST(ProgramsTest, EvictedProgramsAreDestroyedWithoutTheLock) {
  Table table;
  for (std::int64_t i = 2; i < 2 + 2 * static_cast<std::int64_t>(Programs::kMaxPrograms); ++i) {
    table.programs.at(one_input(1));  // it is looked up and must remain
    fill(table, i);
  }
  EXPECT_GE(table.ended, static_cast<int>(Programs::kMaxPrograms));
}

TEST(ProgramsTest, GraphsReturnsFinishedProgramsWithoutWaitingForOthers) {
  Table table;
  for (std::int64_t i = 2; i < 5; ++i) fill(table, i);
  const auto entry = table.programs.at(one_input(9));
  const Lock making(entry->making);
  EXPECT_EQ(table.programs.graphs().size(), 3u);
}

TEST(ProgramsTest, ProgramsAreTrimmedWithoutTheLock) {
  Table table;
  for (std::int64_t i = 2; i < 5; ++i) fill(table, i);
  EXPECT_EQ(table.programs.trim(), 3u);
}

}  // namespace
}  // namespace sluice::engine
