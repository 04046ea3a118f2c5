// Unpadding: packs the tokens of padded batches (varlen) so that encoders skip the padding.
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
  // Finds the model's mask for inputs of these types; throws unavailable if there is none.
  using Find = std::function<PaddingMask(std::span<const TensorType>)>;

  PaddingSkipper(bool enabled, Find find) : enabled_(enabled), find_(std::move(find)) {}

  // Stores the mask for inputs of these types, found by the passes or read from a plan.
  void known(std::span<const TensorType> types, PaddingMask mask);
  std::optional<PaddingMask> known(std::span<const TensorType> types) const;

  // None if the call runs with its padding.
  std::optional<VarlenBatch> varlen_batch(std::span<const Datum> inputs);
  // Records why the call runs with its padding.
  void set_why_not(std::string why);

  // Why the last call ran with its padding; empty if it did not, or had no padding.
  std::string why_not() const;

 private:
  static constexpr std::size_t kMaxTypes = 2 * Programs::kMaxPrograms;  // types that are remembered

  struct Seen {
    InputTypes types;
    std::optional<PaddingMask> mask;
    std::string why_not;  // where there is none
  };
  std::optional<Seen> seen(std::span<const TensorType> types) const;
  void remember(Seen what);
  std::optional<PaddingMask> mask_for(const InputTypes& types);

  const bool enabled_;
  const Find find_;
  mutable Mutex mutex_;
  std::list<Seen> seen_ GUARDED_BY(mutex_);  // the mask may depend on the shapes
  std::string why_not_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
