// Validators of option values, for CLI11's check(): they return why a value is invalid, or "".
#pragma once

#include <functional>
#include <string>

namespace sluice::cli {

using Check = std::function<std::string(const std::string& given)>;

// An unset variable in a script gives an empty text: that is no value. `wanted` as in
// "a port such as 8000".
Check not_empty(std::string wanted);

// A finite number. `wanted` as in "a number of watts such as 500".
Check finite_number(std::string wanted);

// A finite number from `low` to `high`.
Check number_between(double low, double high);

}  // namespace sluice::cli
