// The attributes of a node, by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/onnx/model.h"
#include "tensor/tensor.h"

namespace sluice::engine {

class Attributes {
 public:
  using Integers = std::vector<std::int64_t>;
  using Reals = std::vector<float>;
  using Strings = std::vector<std::string>;
  using Tensors = std::vector<Tensor>;
  using Any = std::variant<std::int64_t, float, std::string, Tensor, Integers, Reals, Strings,
                           Tensors, onnx::SparseTensor, onnx::Type>;

  bool has(std::string_view name) const { return all_.find(name) != all_.end(); }
  void set(std::string_view name, Any value) {
    all_.insert_or_assign(std::string(name), std::move(value));
  }
  void erase(std::string_view name);
  const std::map<std::string, Any, std::less<>>& all() const noexcept { return all_; }

  // The value, or `default_value` if it is missing. Throws invalid_argument if it has another kind,
  // or if it is missing and there is no default.
  std::int64_t integer(std::string_view name, std::int64_t default_value) const;
  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name, bool default_value = false) const {
    return integer(name, default_value ? 1 : 0) != 0;
  }
  float real(std::string_view name, float default_value) const;
  std::string string(std::string_view name, std::string_view default_value) const;
  Integers integers(std::string_view name, Integers default_value = {}) const;
  Reals reals(std::string_view name, Reals default_value = {}) const;
  Strings strings(std::string_view name, Strings default_value = {}) const;
  Tensor tensor(std::string_view name) const;  // empty if missing
  DType dtype(std::string_view name, DType default_value) const;

  // Null if missing.
  template <class T>
  const T* find(std::string_view name) const {
    const auto found = all_.find(name);
    if (found == all_.end()) return nullptr;
    const T* const value = std::get_if<T>(&found->second);
    if (value == nullptr) wrong_kind(name);
    return value;
  }

 private:
  [[noreturn]] static void wrong_kind(std::string_view name);

  std::map<std::string, Any, std::less<>> all_;
};

}  // namespace sluice::engine
