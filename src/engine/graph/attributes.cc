#include "engine/graph/attributes.h"

#include "base/error.h"

namespace sluice::engine {
namespace {

template <class T>
T value_or(const T* found, T default_value) {
  return found != nullptr ? *found : std::move(default_value);
}

}  // namespace

void Attributes::wrong_kind(std::string_view name) {
  throw Error(Code::invalid_argument, "attribute '" + std::string(name) + "' has the wrong type");
}

void Attributes::erase(std::string_view name) {
  if (const auto found = all_.find(name); found != all_.end()) all_.erase(found);
}

std::int64_t Attributes::integer(std::string_view name, std::int64_t default_value) const {
  return value_or(find<std::int64_t>(name), default_value);
}

std::int64_t Attributes::integer(std::string_view name) const {
  require(has(name), "attribute '" + std::string(name) + "' is missing");
  return integer(name, 0);
}

float Attributes::real(std::string_view name, float default_value) const {
  return value_or(find<float>(name), default_value);
}

std::string Attributes::string(std::string_view name, std::string_view default_value) const {
  return value_or(find<std::string>(name), std::string(default_value));
}

Attributes::Integers Attributes::integers(std::string_view name, Integers default_value) const {
  return value_or(find<Integers>(name), std::move(default_value));
}

Attributes::Reals Attributes::reals(std::string_view name, Reals default_value) const {
  return value_or(find<Reals>(name), std::move(default_value));
}

Attributes::Strings Attributes::strings(std::string_view name, Strings default_value) const {
  return value_or(find<Strings>(name), std::move(default_value));
}

Tensor Attributes::tensor(std::string_view name) const {
  return value_or(find<Tensor>(name), Tensor());
}

DType Attributes::dtype(std::string_view name, DType default_value) const {
  const std::int64_t number = integer(name, static_cast<std::int64_t>(default_value));
  require(number > 0 && number < kDTypes,
          "attribute '" + std::string(name) + "' names element type " + std::to_string(number));
  return static_cast<DType>(number);
}

}  // namespace sluice::engine
