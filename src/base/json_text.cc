#include "base/json_text.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/cancellation.h"
#include "base/json_numbers.h"

namespace sluice {

namespace {

constexpr std::size_t kNumbersAtOnce = 512;

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[64];  // as dump() writes it, without its string for each number
  out.append(text, nlohmann::detail::to_chars(text, text + sizeof text, value));
}

std::size_t written_size(const Json& json) {
  constexpr std::size_t kNumber = 20, kOther = 24;
  if (is_packed(json)) return 2 + count_in(json) * kNumber;
  if (json.is_string()) return 3 + json.get_ref<const std::string&>().size();
  if (!json.is_structured()) return kOther;
  std::size_t sum = 2;
  for (const auto& item : json.items())
    sum += written_size(item.value()) + (json.is_object() ? item.key().size() + 4 : 1);
  return sum;
}

}  // namespace

struct JsonText::Impl {
  // A list or object whose beginning is written, and how many of its values are.
  struct Open {
    Json* json;
    std::size_t done = 0;
  };

  Json json;
  std::vector<Open> open;
  bool begun = false;

  void enter(Json& value, std::string& out) {
    if (!is_packed(value) && !value.is_structured()) {
      out += value.dump();
      return;
    }
    out += value.is_object() ? '{' : '[';
    open.push_back({&value});
  }

  void leave(char bracket, std::string& out) {
    out += bracket;
    open.pop_back();
  }

  void write_numbers(Open& top, std::string& out) {
    const std::size_t count = count_in(*top.json);
    const std::size_t end = std::min(count, top.done + kNumbersAtOnce);
    for (; top.done < end; ++top.done) {
      if (top.done > 0) out += ',';
      write_number(number_in(*top.json, top.done), out);
    }
    if (end < count) return;
    *top.json = nullptr;
    leave(']', out);
  }

  void write_element(Open& top, std::string& out) {
    if (top.done == top.json->size()) return leave(']', out);
    if (top.done > 0) out += ',';
    enter((*top.json)[top.done++], out);
  }

  void write_member(Open& top, std::string& out) {
    auto& members = top.json->get_ref<Json::object_t&>();
    if (top.done == members.size()) return leave('}', out);
    if (top.done > 0) out += ',';
    auto& member = *(members.begin() + static_cast<std::ptrdiff_t>(top.done++));
    out += Json(member.first).dump();
    out += ':';
    enter(member.second, out);
  }
};

JsonText::JsonText(Json json) : impl_(std::make_unique<Impl>(Impl{std::move(json), {}})) {}
JsonText::~JsonText() = default;
JsonText::JsonText(JsonText&&) noexcept = default;
JsonText& JsonText::operator=(JsonText&&) noexcept = default;

bool JsonText::next(std::string& out, std::size_t bytes) {
  const std::size_t before = out.size();
  if (!std::exchange(impl_->begun, true)) impl_->enter(impl_->json, out);
  while (!impl_->open.empty() && out.size() - before < bytes) {
    throw_if_cancelled();
    auto& top = impl_->open.back();
    if (is_packed(*top.json))
      impl_->write_numbers(top, out);
    else if (top.json->is_array())
      impl_->write_element(top, out);
    else
      impl_->write_member(top, out);
  }
  return !impl_->open.empty();
}

std::size_t JsonText::size() const { return written_size(impl_->json); }

std::string to_text(JsonText text) {
  std::string out;
  out.reserve(text.size());  // growing takes twice as much
  text.next(out, std::numeric_limits<std::size_t>::max());
  return out;
}

}  // namespace sluice
