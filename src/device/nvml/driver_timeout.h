// Calls into a driver that may never return.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "device/nvml/nvml.h"

namespace sluice::device {

// Returns or throws what `ask` does if it ends within `limit`. Otherwise throws
// unavailable with the NVML function that hangs, and leaves the thread behind:
// a call inside a stuck driver cannot be cancelled. So `ask` must own everything it
// uses, and the program should end soon after.
template <class Ask>
auto within(std::chrono::milliseconds limit, Ask ask) {
  struct Watch final : CallObserver {
    void before(const char* function) noexcept override { now = function; }
    void after(const char*, nvml::Return, Steady::duration) noexcept override { now = nullptr; }
    std::atomic<const char*> now = nullptr;
  };
  const auto watch = std::make_shared<Watch>();
  std::packaged_task<decltype(ask())()> task([watch, ask = std::move(ask)]() mutable {
    const CallScope observed(*watch);
    return ask();
  });
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
  const char* function = watch->now;
  throw Error(Code::unavailable,
              fmt::format("the driver has not answered for {:g} s{}{}; dmesg | grep NVRM may say "
                          "why, and a reboot is often the only cure",
                          std::chrono::duration<double>(limit).count(),
                          function == nullptr ? "" : ": it hangs in ",
                          function == nullptr ? "" : function));
}

}  // namespace sluice::device
