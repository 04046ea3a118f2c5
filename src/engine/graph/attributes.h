// The settings of a node, by name.
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

  // The value, or what stands in for it where there is none. Throws invalid_argument where
  // it is of another kind, and the forms without a stand-in where it is missing.
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise = false) const {
    return integer(name, otherwise ? 1 : 0) != 0;
  }
  float real(std::string_view name, float otherwise) const;
  std::string string(std::string_view name, std::string_view otherwise) const;
  Integers integers(std::string_view name, Integers otherwise = {}) const;
  Reals reals(std::string_view name, Reals otherwise = {}) const;
  Strings strings(std::string_view name, Strings otherwise = {}) const;
  Tensor tensor(std::string_view name) const;  // none where there is none
  DType dtype(std::string_view name, DType otherwise) const;

  // Null where there is none.
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
