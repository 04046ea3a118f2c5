// The programs that a graph was compiled to on one device, by the types of the inputs.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/exec/program.h"
#include "engine/ops/op.h"
#include "engine/passes/passes.h"
#include "engine/precision/precision_report.h"

namespace sluice::engine {

using InputTypes = std::vector<TensorType>;

// None if a value is not a tensor.
std::optional<InputTypes> types_of(std::span<const Datum> inputs);

// Tracks how many batch items fit into memory. A larger batch is tried again after one second,
// then two, up to five minutes. Thread-safe.
class BatchFit {
 public:
  // The number of batch items to begin with, at most `items`; 0: not even one fits.
  std::int64_t begin(std::int64_t items, Instant now) const;
  void limit(std::int64_t max_items, Instant now);  // fewer than all items fit
  void reset();                                     // all items fit

 private:
  mutable Mutex mutex_;
  std::optional<std::int64_t> max_items_ GUARDED_BY(mutex_);  // none: no limit is known
  double pause_s_ GUARDED_BY(mutex_) = 0;
  Instant retry_at_ GUARDED_BY(mutex_){};
};

// Thread-safe. Programs are made, trimmed and destroyed without the lock, since that may wait for
// the device.
class Programs {
 public:
  static constexpr std::size_t kMaxPrograms = 32;  // the least recently used is evicted

  struct Result {
    std::shared_ptr<const Program> program;  // null: see why_not
    std::string why_not;
    std::vector<PassReport> passes{};            // empty if the program is from a plan
    std::optional<PrecisionReport> precision{};  // if f16 or bf16 was requested
  };
  // Made once; concurrent calls with the same types wait for it.
  struct Entry {
    explicit Entry(std::span<const TensorType> key) : types(key.begin(), key.end()) {}
    const InputTypes types;
    BatchFit fit;
    Mutex making;
    bool made GUARDED_BY(making) = false;
    Result result GUARDED_BY(making);
    std::optional<bool> independent GUARDED_BY(making);  // whether batch items are independent
  };

  std::shared_ptr<Entry> at(std::span<const TensorType> types);
  // Registers a program that was made.
  void add(const Entry& entry, const std::shared_ptr<const Program>& program);

  std::vector<Graph> graphs() const;  // of finished programs; does not wait for others
  std::size_t trim() const noexcept;  // releases memory cached for later runs; bytes

 private:
  struct Kept {
    std::shared_ptr<Entry> entry;
    std::shared_ptr<const Program> program{};  // once it is made
  };

  mutable Mutex mutex_;
  std::list<Kept> entries_ GUARDED_BY(mutex_);  // most recently used first
  std::vector<std::weak_ptr<const Program>> made_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
