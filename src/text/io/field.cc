#include "text/io/field.h"

#include <fmt/format.h>

#include "text/unicode/utf8.h"

namespace sluice::text {

void Field::refuse(std::string_view why) const {
  throw FieldError(fmt::format("{}: {}", place_, why));
}

std::optional<Field> Field::find(std::string_view name) const {
  if (!is_object()) refuse("must be an object");
  const auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return Field(*found, fmt::format("{}{}{}", place_, is_root_ ? ": " : ".", name), false);
}

Field Field::at(std::string_view name) const {
  auto found = find(name);
  if (!found) refuse(fmt::format("has no {}", name));
  return *std::move(found);
}

const std::string& Field::text() const {
  if (!is_string()) refuse("must be a text");
  return value_->get_ref<const std::string&>();
}

char32_t Field::code_point() const {
  const std::string& all = text();
  if (count_code_points(all) != 1) refuse("must be one character");
  std::size_t at = 0;
  return next_code_point(all, at);
}

bool Field::boolean() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->get<bool>();
}

double Field::number() const {
  if (!value_->is_number()) refuse("must be a number");
  return value_->get<double>();
}

std::uint64_t Field::integer(std::uint64_t most) const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > most)
    refuse(fmt::format("must be an integer from 0 to {}", most));
  return value_->get<std::uint64_t>();
}

std::string Field::text(std::string_view name, std::string_view when_absent) const {
  const auto field = find(name);
  return field ? field->text() : std::string(when_absent);
}

bool Field::boolean(std::string_view name, bool when_absent) const {
  const auto field = find(name);
  return field ? field->boolean() : when_absent;
}

Field Field::item(std::size_t index) const {
  if (!is_list() || index >= value_->size()) refuse(fmt::format("has no item {}", index));
  return Field((*value_)[index], fmt::format("{}[{}]", place_, index));
}

}  // namespace sluice::text
