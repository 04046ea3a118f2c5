// Which calls of a session run without their padding, and on what.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "engine/packing.h"
#include "engine/programs.h"

namespace sluice::engine {

// Thread-safe. Looks for the mask once, at the first call that may have padding.
class PaddingSkipper {
 public:
  // Which of the model's inputs is the mask, for inputs of these types; throws unavailable where
  // there is none.
  using Find = std::function<std::size_t(std::span<const TensorType>)>;

  PaddingSkipper(bool wanted, Find find) : wanted_(wanted), find_(std::move(find)) {}

  // Of a plan that has been packed for it.
  void known(std::size_t mask);

  // None: the call runs with its padding.
  std::optional<Packing> packing(std::span<const Datum> inputs);
  // This call's types have no program without padding.
  void failed(const std::string& why);

  std::string why_not() const;

 private:
  std::optional<std::size_t> mask(std::span<const Datum> inputs);

  const bool wanted_;
  const Find find_;
  mutable Mutex mutex_;
  bool looked_ GUARDED_BY(mutex_) = false;
  std::optional<std::size_t> mask_ GUARDED_BY(mutex_);
  std::string why_not_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
