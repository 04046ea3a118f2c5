// A row's entries as bytes, for the file. Per entry: the metric's number and the
// count as varints, a byte of three 2-bit tags, then minimum, mean and maximum,
// each as short as it can be without loss: the same as the value before it
// (nothing), a whole number (varint), a float or a double. A quiet metric takes
// 4 bytes, a busy one about 20.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "watch/history/history_row.h"

namespace sluice::watch {

std::string encode(std::span<const Entry> entries);

// Throws internal for bytes that encode() did not make.
std::vector<Entry> decode(std::span<const unsigned char> bytes);

}  // namespace sluice::watch
