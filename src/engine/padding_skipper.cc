#include "engine/padding_skipper.h"

#include <algorithm>

namespace sluice::engine {

void PaddingSkipper::known(PaddingMask mask) {
  const Lock lock(mutex_);
  mask_ = mask;
}

void PaddingSkipper::say(std::string why) {
  const Lock lock(mutex_);
  why_not_ = std::move(why);
}

void PaddingSkipper::failed(std::string why) { say(std::move(why)); }

std::string PaddingSkipper::why_not() const {
  const Lock lock(mutex_);
  return why_not_;
}

// Throws unavailable where there is none; none: types that no model of this kind takes.
std::optional<PaddingMask> PaddingSkipper::mask_for(const InputTypes& types) {
  {
    const Lock lock(mutex_);
    if (mask_) return mask_;
    for (const auto& [refused, why] : refused_)
      if (refused == types) throw Error(Code::unavailable, why);
  }
  try {  // while others go on: it takes as long as compiling
    const PaddingMask found = find_(types);
    known(found);
    return found;
  } catch (const Error& error) {
    if (error.code() == Code::invalid_argument) return std::nullopt;  // the run will say so
    if (error.code() == Code::unavailable) {
      const Lock lock(mutex_);
      if (refused_.size() == kMostRefused) refused_.erase(refused_.begin());
      refused_.emplace_back(types, error.reason());
    }
    throw;
  }
}

std::optional<Packing> PaddingSkipper::packing(std::span<const Datum> inputs) {
  const bool large = std::ranges::any_of(inputs, [](const Datum& input) {
    return input.tensor.rank() == 2 && input.tensor.size() >= kFewestPlaces;
  });
  if (!wanted_ || !large) return std::nullopt;
  const std::optional<InputTypes> types = types_of(inputs);
  if (!types) return std::nullopt;
  try {
    const std::optional<PaddingMask> mask = mask_for(*types);
    if (!mask || mask->input >= inputs.size()) return std::nullopt;
    auto packing = pack(inputs[mask->input].tensor, mask->first);
    say("");
    return packing;
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    say(std::string(error.reason()));
    return std::nullopt;
  }
}

}  // namespace sluice::engine
