// What a plan says of the precision of its graphs, as bytes.
#pragma once

#include <string_view>

#include "engine/precision/precision_choice.h"
#include "formats/onnx/message.h"

namespace sluice::engine {

onnx::Message precision_message(const PrecisionReport& report);
// Throws invalid_argument where it is none.
PrecisionReport read_precision(std::string_view bytes);

}  // namespace sluice::engine
