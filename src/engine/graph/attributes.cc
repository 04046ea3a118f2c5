#include "engine/graph/attributes.h"

#include "base/error.h"

namespace sluice::engine {
namespace {

template <class T>
T value_or(const T* found, T otherwise) {
  return found != nullptr ? *found : std::move(otherwise);
}

}  // namespace

void Attributes::wrong_kind(std::string_view name) {
  throw Error(Code::invalid_argument, "attribute '" + std::string(name) + "' is of another kind");
}

void Attributes::erase(std::string_view name) {
  if (const auto found = all_.find(name); found != all_.end()) all_.erase(found);
}

std::int64_t Attributes::integer(std::string_view name, std::int64_t otherwise) const {
  return value_or(find<std::int64_t>(name), otherwise);
}

std::int64_t Attributes::integer(std::string_view name) const {
  require(has(name), "attribute '" + std::string(name) + "' is missing");
  return integer(name, 0);
}

float Attributes::real(std::string_view name, float otherwise) const {
  return value_or(find<float>(name), otherwise);
}

std::string Attributes::string(std::string_view name, std::string_view otherwise) const {
  return value_or(find<std::string>(name), std::string(otherwise));
}

Attributes::Integers Attributes::integers(std::string_view name, Integers otherwise) const {
  return value_or(find<Integers>(name), std::move(otherwise));
}

Attributes::Reals Attributes::reals(std::string_view name, Reals otherwise) const {
  return value_or(find<Reals>(name), std::move(otherwise));
}

Attributes::Strings Attributes::strings(std::string_view name, Strings otherwise) const {
  return value_or(find<Strings>(name), std::move(otherwise));
}

Tensor Attributes::tensor(std::string_view name) const {
  return value_or(find<Tensor>(name), Tensor());
}

DType Attributes::dtype(std::string_view name, DType otherwise) const {
  const std::int64_t number = integer(name, static_cast<std::int64_t>(otherwise));
  require(number > 0 && number < kDTypes,
          "attribute '" + std::string(name) + "' names element type " + std::to_string(number));
  return static_cast<DType>(number);
}

}  // namespace sluice::engine
