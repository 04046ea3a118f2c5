// Which calls of a session run without their padding, and on what.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "engine/packing.h"
#include "engine/programs.h"

namespace sluice::engine {

// Thread-safe.
class PaddingSkipper {
 public:
  // The mask of the model for inputs of these types; throws unavailable where there is none.
  using Find = std::function<PaddingMask(std::span<const TensorType>)>;

  PaddingSkipper(bool wanted, Find find) : wanted_(wanted), find_(std::move(find)) {}

  // Of a plan that has been packed for it.
  void known(PaddingMask mask);

  // None: the call runs with its padding.
  std::optional<Packing> packing(std::span<const Datum> inputs);
  // There is no program without padding for that call.
  void failed(std::string why);

  // Why the last call ran with its padding; empty where it did not, or had none.
  std::string why_not() const;

 private:
  static constexpr std::size_t kMostRefused = 16;

  std::optional<PaddingMask> mask_for(const InputTypes& types);
  void say(std::string why);

  const bool wanted_;
  const Find find_;
  mutable Mutex mutex_;
  std::optional<PaddingMask> mask_ GUARDED_BY(mutex_);
  // Types for which none was found, with the reason.
  std::vector<std::pair<InputTypes, std::string>> refused_ GUARDED_BY(mutex_);
  std::string why_not_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
