// A value of a tokenizer file, with its place for messages: "tokenizer.json: model.unk_token".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace sluice::text {

// The reason names the place already.
class FieldError : public Error {
 public:
  explicit FieldError(const std::string& message) : Error(Code::invalid_argument, message) {}
};

// The document must outlive it. Functions throw FieldError.
class Field {
 public:
  // `is_root`: the place is a file's name.
  Field(const Json& value, std::string place, bool is_root = false)
      : value_(&value), place_(std::move(place)), is_root_(is_root) {}

  [[noreturn]] void refuse(std::string_view why) const;

  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }

  // The member of an object; none when it is absent or null.
  std::optional<Field> find(std::string_view name) const;
  Field at(std::string_view name) const;

  const Json& json() const noexcept { return *value_; }
  const std::string& text() const;
  char32_t code_point() const;  // of a text of one character
  bool boolean() const;
  double number() const;
  std::uint64_t integer(std::uint64_t most) const;

  std::string text(std::string_view name, std::string_view when_absent) const;
  bool boolean(std::string_view name, bool when_absent) const;

  std::size_t size() const { return value_->size(); }
  Field item(std::size_t index) const;  // of a list
  template <class Visit>
  void each_item(Visit&& visit) const {
    if (!is_list()) refuse("must be a list");
    for (std::size_t i = 0; i < value_->size(); ++i) visit(item(i));
  }
  Field member(std::string_view name, const Json& value) const {
    return Field(value, place_ + "." + std::string(name));
  }

  // Calls make() and puts the place before the reason of what it throws.
  template <class Make>
  auto with_place(Make&& make) const {
    try {
      return make();
    } catch (const FieldError&) {
      throw;
    } catch (const Error& e) {
      refuse(e.reason());
    }
  }

 private:
  const Json* value_;
  std::string place_;
  bool is_root_;
};

}  // namespace sluice::text
