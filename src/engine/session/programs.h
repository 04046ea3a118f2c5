// What is compiled of a graph on one device, by the types of its inputs.
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
#include "engine/precision/precision_choice.h"

namespace sluice::engine {

using InputTypes = std::vector<TensorType>;

// None where a value is no tensor.
std::optional<InputTypes> types_of(std::span<const Datum> inputs);

// How many rows of a call fit into memory, as far as calls have shown. More are tried again
// after a second, then two, up to five minutes. Thread-safe.
class Fit {
 public:
  // How many of `rows` to begin with; 0: not even one fits.
  std::int64_t begin(std::int64_t rows, Instant now) const;
  void found(std::int64_t most, Instant now);  // fewer than all
  void all();

 private:
  mutable Mutex mutex_;
  std::optional<std::int64_t> most_ GUARDED_BY(mutex_);  // none: all, as far as is known
  double pause_s_ GUARDED_BY(mutex_) = 0;
  Instant again_ GUARDED_BY(mutex_){};
};

// Thread-safe. Programs are made, trimmed and ended without its lock: each may wait for the device.
class Programs {
 public:
  static constexpr std::size_t kMost = 32;  // shapes kept at once; the longest unused goes

  struct Result {
    std::shared_ptr<const Program> program;  // null: none, because of
    std::string why_not;
    std::vector<PassReport> passes{};  // what they changed; none where a plan brought it
    // How it came to f16 or bf16, where that was asked for.
    std::optional<PrecisionReport> precision{};
  };
  // Made once, while others who ask for the same wait.
  struct Entry {
    explicit Entry(std::span<const TensorType> key) : types(key.begin(), key.end()) {}
    const InputTypes types;
    Fit fit;
    Mutex making;
    bool made GUARDED_BY(making) = false;
    Result result GUARDED_BY(making);
    std::optional<bool> independent GUARDED_BY(making);  // rows
  };

  std::shared_ptr<Entry> at(std::span<const TensorType> types);
  // To be told of every program that is made.
  void add(const Entry& entry, const std::shared_ptr<const Program>& program);

  std::vector<Graph> graphs() const;  // of programs that are made; waits for none that is not
  std::size_t trim() const noexcept;  // memory that programs keep for later runs; bytes

 private:
  struct Kept {
    std::shared_ptr<Entry> entry;
    std::shared_ptr<const Program> program{};  // once it is made
  };

  mutable Mutex mutex_;
  std::list<Kept> entries_ GUARDED_BY(mutex_);  // the last used first
  std::vector<std::weak_ptr<const Program>> made_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
