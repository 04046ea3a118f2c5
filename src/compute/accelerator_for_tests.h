// A GPU that runs the CPU's code and fails as scripted.
#pragma once

#include <atomic>
#include <deque>
#include <optional>

#include "compute/accelerator.h"
#include "compute/workers.h"

namespace sluice::compute {

class FakeAccelerator final : public Accelerator {
 public:
  enum class Trouble { none, exhausted, fault, refused };

  std::string name() const override { return "fake"; }
  std::string why_not() override { return lost; }
  Taken run(const Operation& operation, const Call& call) override {
    ++calls;
    const Trouble trouble = script.empty() ? Trouble::none : script.front();
    if (!script.empty()) script.pop_front();
    if (trouble == Trouble::fault) {
      lost = "fell off the bus";
      throw DeviceFault("fell off the bus");
    }
    if (trouble == Trouble::refused) throw DeviceRefusal("does not compile");
    if (trouble == Trouble::exhausted || call.items > max_items)
      throw Error(Code::exhausted, "out of memory");
    operation.cpu(call, workers);
    return taken;
  }
  std::size_t trim() noexcept override { return ++trims == 1 ? cached : 0; }

  std::deque<Trouble> script;  // of the next calls
  std::size_t max_items = static_cast<std::size_t>(-1);
  std::size_t cached = 0;  // what the first trim() finds
  std::string lost;
  Taken taken{1e-6, 1e-6, 1e-6};
  std::atomic<int> calls = 0, trims = 0;

 private:
  Workers workers{1};
};

}  // namespace sluice::compute
