// Serialization of the precision reports of a plan.
#pragma once

#include <string_view>

#include "engine/precision/precision_report.h"
#include "formats/onnx/message.h"

namespace sluice::engine {

onnx::Message precision_message(const PrecisionReport& report);
// Throws invalid_argument if the bytes are not a report.
PrecisionReport read_precision(std::string_view bytes);

}  // namespace sluice::engine
