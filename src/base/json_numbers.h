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
double number_in(const Json& packed_list, std::size_t i);

// Appends one more. `list` is a packed list, or an empty plain one, which then becomes packed.
void append_packed(Json& list, double value);

// Appends a member with a name that the object has not yet. Json's own ways look for the name
// among all others, and copy every member, lists and all, when the object grows.
void append_member(Json& object, std::string name, Json value);

// The same document with plain lists only.
Json unpacked(Json json);

}  // namespace sluice
