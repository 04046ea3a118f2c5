// What a plan is valid for.
#pragma once

#include <string>
#include <string_view>

namespace sluice::onnx {
class Message;
}

namespace sluice::engine {

// The plan cache's key is a part of it: see plan_cache.h.
struct PlanKey {
  std::string model;      // model_stamp() or model_content()
  std::string device;     // device_stamp() or cuda_stamp()
  std::string software;   // GPU driver and libraries; empty for the CPU
  std::string precision;  // "fp32"
  std::string version;    // of Sluice

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// "x.plan was made for ..., this is ...: compile the model again"; empty if the plan is valid.
std::string why_stale(const PlanKey& made, const PlanKey& here);

// As a plan file holds it.
onnx::Message key_message(const PlanKey& key);
PlanKey read_key(std::string_view bytes);

}  // namespace sluice::engine
