#include "engine/padding_skipper.h"

namespace sluice::engine {

void PaddingSkipper::known(std::size_t mask) {
  const Lock lock(mutex_);
  looked_ = true;
  mask_ = mask;
}

void PaddingSkipper::failed(const std::string& why) {
  const Lock lock(mutex_);
  why_not_ = why;
}

std::string PaddingSkipper::why_not() const {
  const Lock lock(mutex_);
  return why_not_;
}

std::optional<std::size_t> PaddingSkipper::mask(std::span<const Datum> inputs) {
  const Lock lock(mutex_);
  if (looked_) return mask_;
  looked_ = true;
  try {
    mask_ = find_(*types_of(inputs));
  } catch (const Error& error) {
    if (error.code() != Code::unavailable && error.code() != Code::invalid_argument) throw;
    why_not_ = error.reason();
  }
  return mask_;
}

std::optional<Packing> PaddingSkipper::packing(std::span<const Datum> inputs) {
  if (!wanted_) return std::nullopt;
  const std::optional<std::size_t> which = mask(inputs);
  return which ? pack(inputs[*which].tensor) : std::nullopt;
}

}  // namespace sluice::engine
