// JSON as a forward declaration, so that headers stay cheap; a .cc that builds
// or reads a document includes <nlohmann/json.hpp> itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace sluice {

// Keys stay in the order they were written: people read these documents.
using Json = nlohmann::ordered_json;

}  // namespace sluice
