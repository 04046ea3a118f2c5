#include "base/json_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/json_numbers.h"

namespace sluice {

namespace {

// The longest text of a number with its comma, and of one byte of a string: "\\u001f".
constexpr std::size_t kMaxNumberBytes = 25, kMaxEscapedBytes = 6;
constexpr std::size_t kStep = 16 << 10;  // between two looks at whether anybody still waits

// The longest prefix of a text that has at most `max_bytes` bytes, at least one character.
std::string_view beginning(std::string_view text, std::size_t max_bytes) {
  constexpr std::size_t kMaxCharacterBytes = 4;
  if (text.size() <= max_bytes) return text;
  const auto is_inside = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  auto end = std::max<std::size_t>(max_bytes, 1);
  for (std::size_t i = 1; i < kMaxCharacterBytes && is_inside(end); ++i) ++end;
  return text.substr(0, end);
}

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

// Heap bytes of a string beyond its inline buffer.
std::size_t held_by(const std::string& text) {
  constexpr std::size_t kInside = 15, kBlock = 17;  // with the zero and what the allocator adds
  return text.size() > kInside ? text.capacity() + kBlock : 0;
}

std::size_t held_size(const Json& json) {
  constexpr std::size_t kBlock = 40;  // of a list, an object or a text
  if (is_packed(json)) return sizeof(Json) + kBlock + 8 * count_in(json);
  if (json.is_string()) return sizeof(Json) + kBlock + held_by(json.get_ref<const std::string&>());
  if (!json.is_structured()) return sizeof(Json);
  std::size_t sum = sizeof(Json) + kBlock;
  if (json.is_array())
    for (const Json& value : json) sum += held_size(value);
  else
    for (const auto& [name, value] : json.get_ref<const Json::object_t&>())
      sum += sizeof name + held_by(name) + held_size(value);
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
  std::vector<Open> open{};
  bool begun = false;
  std::optional<std::string_view> text{};  // what is left of a string or name that is begun
  Json* behind = nullptr;                  // the value of the name

  void enter(Json& value, std::string& out) {
    if (value.is_string()) return begin_text(value.get_ref<const std::string&>(), out);
    if (!is_packed(value) && !value.is_structured()) {
      out += value.dump();
      return;
    }
    out += value.is_object() ? '{' : '[';
    open.push_back({&value});
  }

  void begin_text(std::string_view whole, std::string& out) {
    out += '"';
    text = whole;
  }

  void write_text(std::string& out, std::size_t space) {
    const auto part = beginning(*text, space / kMaxEscapedBytes);
    const std::string quoted = Json(part).dump();
    out.append(quoted, 1, quoted.size() - 2);
    text->remove_prefix(part.size());
    if (!text->empty()) return;
    text.reset();
    out += '"';
    if (behind == nullptr) return;
    out += ':';
    enter(*std::exchange(behind, nullptr), out);
  }

  void leave(char bracket, std::string& out) {
    out += bracket;
    open.pop_back();
  }

  void write_numbers(Open& top, std::string& out, std::size_t space) {
    const std::size_t count = count_in(*top.json);
    const std::size_t at_once = std::max<std::size_t>(space / kMaxNumberBytes, 1);
    const std::size_t end = top.done + std::min(count - top.done, at_once);
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
    behind = &member.second;
    begin_text(member.first, out);
  }

  bool has_more() const { return text || !open.empty(); }

  // A little more of the text, about `space` bytes at most.
  void step(std::string& out, std::size_t space) {
    if (text) return write_text(out, std::min(space, kStep));
    auto& top = open.back();
    if (is_packed(*top.json))
      write_numbers(top, out, std::min(space, kStep));
    else if (top.json->is_array())
      write_element(top, out);
    else
      write_member(top, out);
  }
};

JsonText::JsonText(Json json) : impl_(std::make_unique<Impl>(Impl{.json = std::move(json)})) {}
JsonText::~JsonText() = default;
JsonText::JsonText(JsonText&&) noexcept = default;
JsonText& JsonText::operator=(JsonText&&) noexcept = default;

bool JsonText::next(std::string& out, std::size_t bytes) {
  const std::size_t before = out.size();
  if (!std::exchange(impl_->begun, true)) impl_->enter(impl_->json, out);
  while (impl_->has_more() && out.size() - before < bytes) {
    throw_if_cancelled();
    impl_->step(out, bytes - (out.size() - before));
  }
  return impl_->has_more();
}

std::size_t JsonText::size() const { return written_size(impl_->json); }
std::size_t JsonText::memory() const { return held_size(impl_->json); }

std::string to_text(JsonText text) {
  std::string out;
  out.reserve(text.size());  // growing takes twice as much
  text.next(out, std::numeric_limits<std::size_t>::max());
  return out;
}

}  // namespace sluice
