// Runs ONNX backend test cases: a folder with model.onnx and
// test_data_set_<k>/{input_<i>,output_<i>}.pb, or <name>.onnx beside <name>_output_0.pb.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compute/workers.h"

namespace sluice::engine {

namespace cuda {
class Context;
}

enum class CaseStatus { passed, failed, unsupported };
std::string_view to_string(CaseStatus status) noexcept;

// The devices that the nodes of a case ran on, if a GPU is used.
enum class RanOn { cpu, both, gpu };
std::string_view to_string(RanOn where) noexcept;

struct CaseResult {
  std::string name;
  CaseStatus status = CaseStatus::passed;
  std::string reason{};  // why it did not pass
  RanOn ran_on = RanOn::cpu;
};

// The models below `folder`, sorted by name.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& folder);

// Never throws; failures are part of the result. Outputs must have the expected type and shape, and
// values within |a - b| <= 1e-7 + 1e-3 |b|. On the CPU a case runs in the interpreter and compiled;
// with `gpu` it is compiled for the GPU.
CaseResult run_case(const std::filesystem::path& model, compute::Workers& workers,
                    const std::shared_ptr<cuda::Context>& gpu = nullptr);

}  // namespace sluice::engine
