#include "base/json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/settings_value.h"

namespace sluice {

namespace {

constexpr std::size_t kMostOfACause = 160;  // bytes: the parser repeats what it has read
constexpr int kDeepest = 64;  // each bracket of a body takes seventy times its size in memory

// The first name that an object has twice. Sees the document while it is parsed: a parsed
// object has each name once.
class Repeats {
 public:
  bool saw(Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event != Event::key || found_) return true;
    found_ = !open_.back().insert(value.get<std::string>()).second;
    if (found_) name_ = value.get<std::string>();
    return true;
  }
  bool found() const { return found_; }
  const std::string& name() const { return name_; }

 private:
  std::vector<std::set<std::string>> open_;  // names so far of the objects around the reader
  bool found_ = false;
  std::string name_;
};

std::string kind_of(const Json& json) {
  if (json.is_string()) return "the text " + in_quotes(json.get_ref<const std::string&>());
  if (json.is_number()) return "the number " + json.dump();
  if (json.is_array()) return "a list";
  return json.dump();  // null, true, false
}

// Without the parser's own name for it.
std::string cause_of(const Json::exception& e) {
  const std::string_view all = e.what();
  const auto end = all.find("] ");
  return printable(all.substr(end == all.npos ? 0 : end + 2).substr(0, kMostOfACause));
}

}  // namespace

Json parse_json_object(std::string_view text, std::string_view what, std::string_view example) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument,
                fmt::format("{} must be a JSON object{}{}{}", what,
                            example.empty() ? "" : " such as ", example, why));
  };
  Repeats repeats;
  Json json;
  try {
    json = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& v) {
      if (depth > kDeepest) refuse(fmt::format(", nested at most {} deep", kDeepest));
      return repeats.saw(event, v);
    });
  } catch (const Json::exception& e) {
    refuse("; it is not JSON: " + cause_of(e));
  }
  if (!json.is_object()) refuse(", not " + kind_of(json));
  if (repeats.found())
    throw Error(Code::invalid_argument,
                fmt::format("{} is given twice in {}", in_quotes(repeats.name()), what));
  return json;
}

}  // namespace sluice
