// Serialization of PlanKey, which is in plan.h.
#pragma once

#include <string_view>

#include "engine/plan/plan.h"
#include "formats/onnx/message.h"

namespace sluice::engine {

onnx::Message key_message(const PlanKey& key);
PlanKey read_key(std::string_view bytes);

}  // namespace sluice::engine
