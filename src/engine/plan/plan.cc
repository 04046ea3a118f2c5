#include "engine/plan/plan.h"

#include <hwy/targets.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/new_file.h"
#include "device/host/cpu.h"
#include "engine/io/content_hash.h"
#include "engine/io/onnx_export.h"
#include "engine/plan/plan_precision.h"
#include "engine/shapes/specialize.h"
#include "formats/map.h"
#include "formats/onnx/wire.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using onnx::Message;
using onnx::Wire;

// File format: magic, size and hash of the head; the head; tensors from the next multiple of 64;
// the hash of everything before.
struct Front {
  char magic[8];
  std::uint64_t head, hash;
};
constexpr std::string_view kMagic = "SLUICEP5";
constexpr std::size_t kHashBytes = sizeof(std::uint64_t);
constexpr std::string_view kDamaged = "it is damaged: compile the model again";
constexpr std::size_t kAlignment = 64;

// The fields of the head, in the protobuf wire format.
enum PlanField { kKey = 1, kModel, kShape, kPacked, kChoice, kPrecision };

std::size_t begin_of_tensors(std::size_t head) {
  return memory::round_up(sizeof(Front) + head, kAlignment);
}

// The types of the inputs are stored; all others are inferred again.
std::vector<TensorType> input_types(const Graph& graph) {
  std::vector<TensorType> types;
  for (const ValueId id : graph.inputs) {
    require(graph[id].dims.has_value(), "an input of a planned graph has no shape");
    for (const Dim& dim : *graph[id].dims)
      require(dim.size >= 0, "an input of a planned graph has no fixed shape");
    types.push_back(type_of(graph[id]));
  }
  return types;
}

struct Opened {
  std::shared_ptr<const void> keep;
  std::string_view all, head, tensors;  // `all` without its hash
};

// Opens a plan and verifies its head.
Opened open_plan(const fs::path& file) {
  Opened opened;
  const std::string_view bytes = map_file(file, opened.keep);
  require(bytes.starts_with(kPlanMagic), "it is no plan");
  require(bytes.starts_with(kMagic), "it is a plan of another version: compile the model again");
  Front front;
  require(bytes.size() >= sizeof front + kHashBytes, kDamaged);
  std::memcpy(&front, bytes.data(), sizeof front);
  opened.all = bytes.substr(0, bytes.size() - kHashBytes);
  require(front.head <= opened.all.size() - sizeof front, kDamaged);
  opened.head = opened.all.substr(sizeof front, front.head);
  require(plan_hash(opened.head) == front.hash, kDamaged);
  const std::size_t begin = begin_of_tensors(front.head);
  if (begin < opened.all.size()) opened.tensors = opened.all.substr(begin);
  return opened;
}

Opened open_whole(const fs::path& file, compute::Workers& workers) {
  Opened opened = open_plan(file);
  std::uint64_t hash;
  std::memcpy(&hash, opened.all.data() + opened.all.size(), sizeof hash);
  require(file_hash(opened.all, workers) == hash, kDamaged);
  return opened;
}

// The first such field in the head, valid as long as `opened` is.
std::string_view part_of(const Opened& opened, PlanField which) {
  for (Wire fields(opened.head); fields.next();)
    if (fields.number() == which) return fields.bytes();
  throw Error(Code::invalid_argument, "it has no key or no model");
}

Graph read_graph(std::string_view bytes, const Opened& from) {
  Graph graph = import_onnx(onnx::parse(bytes, from.keep, {}, from.tensors));
  restore_versions(graph);
  return graph;
}

// Kernels use aligned vector loads of packed weights; a file may put them at any offset.
Tensor aligned(const Tensor& tensor) {
  if (reinterpret_cast<std::uintptr_t>(tensor.data()) % kAlignment == 0) return tensor;
  Tensor copy(tensor.dtype(), tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(copy.data(), tensor.data(), tensor.bytes());
  return copy;
}

PackedConstant read_packed(std::string_view bytes, const Opened& from) {
  PackedConstant packed;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1)
      packed.constant = onnx::parse_tensor(fields.bytes(), from.keep, from.tensors);
    if (fields.number() == 2) packed.layout = fields.name();
    if (fields.number() == 3)
      packed.result = onnx::parse_tensor(fields.bytes(), from.keep, from.tensors);
  }
  require(packed.constant && packed.result && packed.result.dtype() != DType::string,
          "packed weights without data");
  packed.result = aligned(packed.result);
  return packed;
}

std::pair<std::string, std::string> read_choice(std::string_view bytes) {
  std::pair<std::string, std::string> choice;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) choice.first = fields.bytes();
    if (fields.number() == 2) choice.second = fields.bytes();
  }
  return choice;
}

template <class Read>
auto with_name(const fs::path& file, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) throw;
    throw Error(error.code(), file.string() + ": " + std::string(error.reason()));
  }
}

// A session names the results of a graph after the model's outputs.
void require_same_outputs(const Graph& shape, const Graph& model) {
  bool same = shape.outputs.size() == model.outputs.size();
  for (std::size_t i = 0; same && i < model.outputs.size(); ++i) {
    const Value &made = shape[shape.outputs[i]], &declared = model[model.outputs[i]];
    same = declared.dtype == DType::none || type_of(made).dtype == declared.dtype;
  }
  require(same, "it is damaged: a graph has other outputs than the model");
}

}  // namespace

void write_plan(const fs::path& file, const Plan& plan) {
  TensorStore tensors{std::string(onnx::kOwnData)};
  Message head;
  head.message(kKey, key_message(plan.key)).bytes(kModel, export_onnx(plan.graph, tensors));
  for (const Graph& graph : plan.shapes) head.bytes(kShape, export_onnx(graph, tensors));
  for (const PackedConstant& packed : plan.packed)
    head.message(kPacked, Message()
                              .message(1, tensors.message("", packed.constant))
                              .bytes(2, packed.layout)
                              .message(3, tensors.message("", packed.result)));
  for (const auto& [key, value] : plan.choices)
    head.message(kChoice, Message().bytes(1, key).bytes(2, value));
  for (const PrecisionReport& report : plan.precision)
    head.message(kPrecision, precision_message(report));
  Front front{.magic = {}, .head = head.text().size(), .hash = plan_hash(head.text())};
  kMagic.copy(front.magic, sizeof front.magic);
  NewFile written(file);
  FileHash all;
  const auto write = [&](std::string_view bytes) {
    all.add(bytes);
    written.write(bytes);
  };
  write({reinterpret_cast<const char*>(&front), sizeof front});
  write(head.text());
  write(std::string(begin_of_tensors(front.head) - sizeof front - front.head, '\0'));
  write_tensors(tensors, write);
  const std::uint64_t hash = all.finish();
  written.write({reinterpret_cast<const char*>(&hash), sizeof hash});
  written.keep();
}

PlanKey read_plan_key(const fs::path& file) {
  return with_name(file, [&] {
    const Opened opened = open_plan(file);
    return read_key(part_of(opened, kKey));
  });
}

Graph read_plan_model(const fs::path& file, compute::Workers& workers) {
  return with_name(file, [&] {
    const Opened opened = open_whole(file, workers);
    return read_graph(part_of(opened, kModel), opened);
  });
}

Plan read_plan(const fs::path& file, compute::Workers& workers) {
  return with_name(file, [&] {
    const Opened opened = open_whole(file, workers);
    Plan plan;
    for (Wire fields(opened.head); fields.next();) {
      switch (fields.number()) {
        case kKey: plan.key = read_key(fields.bytes()); break;
        case kModel: plan.graph = read_graph(fields.bytes(), opened); break;
        case kShape: {
          const Graph graph = read_graph(fields.bytes(), opened);
          plan.shapes.push_back(specialize(graph, input_types(graph), workers));
          break;
        }
        case kPacked: plan.packed.push_back(read_packed(fields.bytes(), opened)); break;
        case kChoice: plan.choices.insert(read_choice(fields.bytes())); break;
        case kPrecision: plan.precision.push_back(read_precision(fields.bytes())); break;
        default: break;
      }
    }
    for (const Graph& shape : plan.shapes) require_same_outputs(shape, plan.graph);
    return plan;
  });
}

std::string device_stamp() {
  const device::Cpu cpu = device::detect_cpu();
  return cpu.model + ", " + hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets());
}

}  // namespace sluice::engine
