// Lists of numbers inside a Json at 8 bytes a number: packed as binary values, which JSON
// text has none of. A plain list costs twice as much, and twice that again while it grows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace sluice {

// NaN and infinities, which JSON does not have, are null in text.
Json packed(std::span<const double> values);
bool is_packed(const Json& json) noexcept;

// The numbers of a packed list; NaN where it had a null.
std::vector<double> numbers_in(const Json& packed_list);
std::size_t count_in(const Json& packed_list);

// Appends one more. `list` is a packed list, or an empty plain one, which then becomes packed.
void append_packed(Json& list, double value);

// The same document with plain lists only.
Json unpacked(Json json);

// About the bytes that write_json() appends: to reserve, since growing takes twice as much.
std::size_t written_size(const Json& json);

// Appends the text that unpacked(json).dump() would give, without making that document.
void write_json(const Json& json, std::string& out);
// Frees each packed list as soon as it is written: the text takes three times as much.
void write_json(Json&& json, std::string& out);

}  // namespace sluice
