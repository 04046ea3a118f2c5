#include "engine/plan/plan_key.h"

#include "formats/onnx/message.h"
#include "formats/onnx/wire.h"

namespace sluice::engine {

using onnx::Message;
using onnx::Wire;

Message key_message(const PlanKey& key) {
  return Message()
      .bytes(1, key.model)
      .bytes(2, key.device)
      .bytes(3, key.precision)
      .bytes(4, key.version)
      .bytes(5, key.software);
}

PlanKey read_key(std::string_view bytes) {
  PlanKey key;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) key.model = fields.name();
    if (fields.number() == 2) key.device = fields.name();
    if (fields.number() == 3) key.precision = fields.name();
    if (fields.number() == 4) key.version = fields.name();
    if (fields.number() == 5) key.software = fields.name();
  }
  return key;
}

std::string why_stale(const PlanKey& made, const PlanKey& here) {
  const auto differs = [](std::string_view what, const std::string& a, const std::string& b) {
    return a == b ? std::string()
                  : "it was made for the " + std::string(what) + " '" + a + "', this is '" + b +
                        "': compile the model again";
  };
  for (const std::string& why :
       {differs("version", made.version, here.version), differs("device", made.device, here.device),
        differs("driver and libraries", made.software, here.software),
        differs("precision", made.precision, here.precision),
        differs("model", made.model, here.model)})
    if (!why.empty()) return why;
  return {};
}

}  // namespace sluice::engine
