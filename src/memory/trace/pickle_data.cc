#include <limits>

#include "base/error.h"
#include "memory/trace/pickle.h"

namespace sluice::memory {

namespace {

bool is_text(PlainData::Kind kind) {
  return kind == PlainData::Kind::text || kind == PlainData::Kind::bytes;
}

std::uint32_t next_index(std::size_t size) {
  require(size < std::numeric_limits<std::uint32_t>::max(), "more than 4 billion items");
  return static_cast<std::uint32_t>(size);
}

}  // namespace

std::string_view PlainData::text(Value value) const noexcept {
  return is_text(value.kind) ? texts_[value.index] : std::string_view();
}

const std::vector<PlainData::Value>& PlainData::items(Value value) const noexcept {
  static const std::vector<Value> kNone;
  const bool holds =
      value.kind == Kind::list || value.kind == Kind::tuple || value.kind == Kind::dict;
  return holds ? containers_[value.index] : kNone;
}

std::optional<PlainData::Value> PlainData::find(Value dict, std::string_view key) const noexcept {
  if (dict.kind != Kind::dict) return std::nullopt;
  const auto& pairs = containers_[dict.index];
  for (std::size_t i = pairs.size(); i >= 2; i -= 2)
    if (pairs[i - 2].kind == Kind::text && text(pairs[i - 2]) == key) return pairs[i - 1];
  return std::nullopt;
}

PlainData::Value PlainData::add_text(Kind kind, std::string_view text, bool keep) {
  Value value;
  value.kind = kind;
  value.index = next_index(texts_.size());
  texts_.push_back(keep ? std::string_view(kept_.emplace_back(text)) : text);
  return value;
}

PlainData::Value PlainData::add_container(Kind kind) {
  Value value;
  value.kind = kind;
  value.index = next_index(containers_.size());
  containers_.emplace_back();
  return value;
}

}  // namespace sluice::memory
