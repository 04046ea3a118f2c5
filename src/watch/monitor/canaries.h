// Canaries in the mine: one short-lived process per GPU that is to return to work,
// which computes something on it. For one thread; nothing here waits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process/child.h"

namespace sluice::watch {

class Canaries {
 public:
  struct Options {
    std::string program, demo;
    std::int64_t demo_epoch_ns = 0;
    double limit_s = 30;  // making a CUDA context may take many seconds on a large machine
  };
  explicit Canaries(Options options) : options_(std::move(options)) {}

  struct Result {
    std::string uuid;
    bool passed = false;
    std::string note;  // what it did, or why it failed
  };
  // Does nothing while one runs for that GPU. Throws nothing: a canary that cannot
  // be started has failed, as has one for a GPU with several that cannot be ended.
  void start(const std::string& uuid, Instant now);
  void cancel(const std::string& uuid, Instant now);  // its result is of no use any more
  std::vector<Result> advance(Instant now);
  std::vector<int> fds() const;

 private:
  struct Run {
    std::unique_ptr<Child> child;
    Instant started;
  };
  struct Ending {
    std::string uuid;
    std::unique_ptr<Child> child;
  };
  Options options_;
  std::map<std::string, Run> running_;
  std::vector<Result> failed_to_start_;
  std::vector<Ending> ending_;
};

}  // namespace sluice::watch
