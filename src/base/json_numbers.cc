#include "base/json_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace sluice {

namespace {

constexpr std::size_t kEach = sizeof(double);

}  // namespace

Json packed(std::span<const double> values) {
  Json::binary_t::container_type bytes(values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
  return Json::binary(std::move(bytes));
}

bool is_packed(const Json& json) noexcept { return json.is_binary(); }

std::size_t count_in(const Json& packed_list) { return packed_list.get_binary().size() / kEach; }

double number_in(const Json& packed_list, std::size_t i) {
  double value = 0;
  std::memcpy(&value, packed_list.get_binary().data() + i * kEach, kEach);
  return value;
}

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

void append_member(Json& object, std::string name, Json value) {
  auto& members = object.get_ref<Json::object_t&>();
  if (members.size() == members.capacity()) {
    Json::object_t wider;
    wider.reserve(std::max<std::size_t>(4, 2 * members.size()));
    for (auto& [key, each] : members) wider.emplace_back(key, std::move(each));
    members = std::move(wider);
  }
  members.emplace_back(std::move(name), std::move(value));
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

}  // namespace sluice
