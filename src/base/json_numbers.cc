#include "base/json_numbers.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/cancellation.h"

namespace sluice {

namespace {

constexpr std::size_t kEach = sizeof(double);
constexpr std::size_t kNumbersPerLook =
    1 << 16;  // numbers between two looks whether anybody still waits

double number_at(const Json::binary_t& bytes, std::size_t i) {
  double value = 0;
  std::memcpy(&value, bytes.data() + i * kEach, kEach);
  return value;
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[64];  // as dump() writes it, without its string for each number
  out.append(text, nlohmann::detail::to_chars(text, text + sizeof text, value));
}

void write_packed(const Json::binary_t& bytes, std::string& out) {
  out += '[';
  for (std::size_t i = 0; i * kEach < bytes.size(); ++i) {
    if (i % kNumbersPerLook == 0) throw_if_cancelled();
    if (i > 0) out += ',';
    write_number(number_at(bytes, i), out);
  }
  out += ']';
}

// Frees packed lists that are not const.
template <class Document>
void write_document(Document& json, std::string& out) {
  if (json.is_binary()) {
    write_packed(json.get_binary(), out);
    if constexpr (!std::is_const_v<Document>) json = nullptr;
    return;
  }
  if (!json.is_structured()) {
    out += json.dump();
    return;
  }
  const bool named = json.is_object();
  out += named ? '{' : '[';
  bool first = true;
  for (auto&& item : json.items()) {
    if (!first) out += ',';
    first = false;
    if (named) {
      out += Json(item.key()).dump();
      out += ':';
    }
    write_document(item.value(), out);
  }
  out += named ? '}' : ']';
}

}  // namespace

Json packed(std::span<const double> values) {
  Json::binary_t::container_type bytes(values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
  return Json::binary(std::move(bytes));
}

bool is_packed(const Json& json) noexcept { return json.is_binary(); }

std::size_t count_in(const Json& packed_list) { return packed_list.get_binary().size() / kEach; }

std::vector<double> numbers_in(const Json& packed_list) {
  const auto& bytes = packed_list.get_binary();
  std::vector<double> values(bytes.size() / kEach);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void append_packed(Json& list, double value) {
  if (!list.is_binary()) list = Json::binary({});
  std::uint8_t bytes[kEach];
  std::memcpy(bytes, &value, kEach);
  auto& all = list.get_binary();
  all.insert(all.end(), bytes, bytes + kEach);
}

Json unpacked(Json json) {
  if (json.is_binary()) {
    Json list = Json::array();
    for (const double v : numbers_in(json))
      list.push_back(std::isfinite(v) ? Json(v) : Json(nullptr));
    return list;
  }
  if (json.is_structured())
    for (Json& each : json) each = unpacked(std::move(each));
  return json;
}

std::size_t written_size(const Json& json) {
  constexpr std::size_t kNumber = 20, kOther = 24;
  if (json.is_binary()) return 2 + count_in(json) * kNumber;
  if (json.is_string()) return 3 + json.get_ref<const std::string&>().size();
  if (!json.is_structured()) return kOther;
  std::size_t sum = 2;
  for (const auto& item : json.items())
    sum += written_size(item.value()) + (json.is_object() ? item.key().size() + 4 : 1);
  return sum;
}

void write_json(const Json& json, std::string& out) { write_document(json, out); }

void write_json(Json&& json, std::string& out) { write_document(json, out); }

}  // namespace sluice
