// Which calls of a session run without their padding, and on what.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "engine/ops/op.h"
#include "engine/session/programs.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {

// Thread-safe.
class PaddingSkipper {
 public:
  // The mask of the model for inputs of these types; throws unavailable where there is none.
  using Find = std::function<PaddingMask(std::span<const TensorType>)>;

  PaddingSkipper(bool wanted, Find find) : wanted_(wanted), find_(std::move(find)) {}

  // For inputs of these types: found, or of a plan that has been packed for them.
  void known(std::span<const TensorType> types, PaddingMask mask);
  std::optional<PaddingMask> known(std::span<const TensorType> types) const;

  // None: the call runs with its padding.
  std::optional<Packing> packing(std::span<const Datum> inputs);
  // Why that call runs with its padding all the same.
  void say(std::string why);

  // Why the last call ran with its padding; empty where it did not, or had none.
  std::string why_not() const;

 private:
  static constexpr std::size_t kMost = 2 * Programs::kMost;  // types that are remembered

  struct Seen {
    InputTypes types;
    std::optional<PaddingMask> mask;
    std::string why_not;  // where there is none
  };
  std::optional<Seen> seen(std::span<const TensorType> types) const;
  void remember(Seen what);
  std::optional<PaddingMask> mask_for(const InputTypes& types);

  const bool wanted_;
  const Find find_;
  mutable Mutex mutex_;
  std::list<Seen> seen_ GUARDED_BY(mutex_);  // a model may have another mask for other shapes
  std::string why_not_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
