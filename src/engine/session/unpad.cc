#include "engine/session/unpad.h"

#include <algorithm>

#include "base/error.h"

namespace sluice::engine {

void PaddingSkipper::remember(Seen what) {
  const Lock lock(mutex_);
  std::erase_if(seen_, [&](const Seen& other) { return other.types == what.types; });
  if (seen_.size() == kMaxTypes) seen_.pop_front();
  seen_.push_back(std::move(what));
}

std::optional<PaddingSkipper::Seen> PaddingSkipper::seen(std::span<const TensorType> types) const {
  const Lock lock(mutex_);
  for (const Seen& one : seen_)
    if (std::ranges::equal(one.types, types)) return one;
  return std::nullopt;
}

void PaddingSkipper::known(std::span<const TensorType> types, PaddingMask mask) {
  remember({InputTypes(types.begin(), types.end()), mask, ""});
}

std::optional<PaddingMask> PaddingSkipper::known(std::span<const TensorType> types) const {
  const std::optional<Seen> before = seen(types);
  return before ? before->mask : std::nullopt;
}

void PaddingSkipper::set_why_not(std::string why) {
  const Lock lock(mutex_);
  why_not_ = std::move(why);
}

std::string PaddingSkipper::why_not() const {
  const Lock lock(mutex_);
  return why_not_;
}

// Throws unavailable if there is no mask; none if the model does not take such types.
std::optional<PaddingMask> PaddingSkipper::mask_for(const InputTypes& types) {
  if (const std::optional<Seen> before = seen(types)) {
    if (!before->mask) throw Error(Code::unavailable, before->why_not);
    return before->mask;
  }
  try {  // without the lock: it takes as long as compiling
    const PaddingMask found = find_(types);
    known(types, found);
    return found;
  } catch (const Error& error) {
    if (error.code() == Code::invalid_argument) return std::nullopt;  // the run reports it
    if (error.code() == Code::exhausted)
      throw Error(Code::unavailable, "no memory to look for the mask");
    if (error.code() == Code::unavailable)
      remember({types, std::nullopt, std::string(error.reason())});
    throw;
  }
}

std::optional<VarlenBatch> PaddingSkipper::varlen_batch(std::span<const Datum> inputs) {
  const bool large = std::ranges::any_of(inputs, [](const Datum& input) {
    return input.tensor.rank() == 2 && input.tensor.size() >= kMinMaskSize;
  });
  if (!enabled_) return std::nullopt;
  if (!large) {
    set_why_not("a batch of fewer than " + std::to_string(kMinMaskSize) +
                " positions is not packed");
    return std::nullopt;
  }
  const std::optional<InputTypes> types = types_of(inputs);
  if (!types) return std::nullopt;
  try {
    const std::optional<PaddingMask> mask = mask_for(*types);
    if (!mask || mask->input >= inputs.size()) return std::nullopt;
    auto varlen = pack_varlen(inputs[mask->input].tensor, mask->first);
    set_why_not("");
    return varlen;
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    set_why_not(std::string(error.reason()));
    return std::nullopt;
  }
}

}  // namespace sluice::engine
