// JSON as a forward declaration, so that headers stay cheap; a .cc that builds
// or reads a document includes <nlohmann/json.hpp> itself.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace sluice {

// Keys stay in the order they were written: people read these documents.
using Json = nlohmann::ordered_json;

// The object that a text from outside holds. Throws invalid_argument for
// anything else: text that is not JSON, another kind of value, or an object, at any
// depth, with a name given twice, which is ambiguous. `what` begins
// the message, "the body"; an `example` helps the reader.
// Takes time and memory in proportion to the text. With `packed`, lists of nothing but
// numbers and nulls are packed (json_numbers.h).
enum class NumberLists { plain, packed };
Json parse_json_object(std::string_view text, std::string_view what, std::string_view example = {},
                       NumberLists lists = NumberLists::plain);

// About what the parsed document of a text takes, in bytes, its texts with it. Quick: it counts
// signs.
std::size_t parsed_size(std::string_view text) noexcept;

}  // namespace sluice
