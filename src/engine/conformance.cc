#include "engine/conformance.h"

#include <algorithm>
#include <cmath>

#include "engine/exec/cuda/cuda_program.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

Datum to_datum(onnx::Value value) {
  if (value.kind == onnx::Type::Kind::sequence || (value.present && !value.items.empty()))
    return value.items;
  if (!value.present) return {};
  return value.tensor;
}

Datum value_in(const fs::path& file, const onnx::Type& type) {
  return to_datum(onnx::read_value(file, type));
}

// A message such as "3 of 24 values differ, the first at 7: 0.5, not 0.25"; empty if they agree.
template <class T>
std::string differ(const Tensor& got, const Tensor& want) {
  const auto a = got.values<T>(), b = want.values<T>();
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    bool same;
    if constexpr (std::is_same_v<T, std::string> || std::is_integral_v<T>) {
      same = a[i] == b[i];
    } else {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      same = x == y || (std::isnan(x) && std::isnan(y)) ||
             std::abs(x - y) <= kAbsolute + kRelative * std::abs(y);
    }
    if (!same && wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  const auto show = [](const T& x) {
    if constexpr (std::is_same_v<T, std::string>)
      return "'" + x.substr(0, 40) + "'";
    else
      return std::to_string(static_cast<double>(x));
  };
  return std::to_string(wrong) + " of " + std::to_string(b.size()) +
         " values differ, the first at " + std::to_string(first) + ": " + show(a[first]) +
         ", not " + show(b[first]);
}

std::string compare(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype())
    return "type " + std::string(to_string(got.dtype())) + ", not " +
           std::string(to_string(want.dtype()));
  if (got.shape() != want.shape())
    return "shape " + to_string(got.shape()) + ", not " + to_string(want.shape());
  if (want.dtype() == DType::c64 || want.dtype() == DType::c128) {  // pairs of numbers
    Shape pairs = want.shape();
    pairs.push_back(2);
    const DType part = want.dtype() == DType::c64 ? DType::f32 : DType::f64;
    return compare(Tensor::view(part, pairs, got.data(), nullptr),
                   Tensor::view(part, pairs, want.data(), nullptr));
  }
  std::string difference;
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool, std::string, Int4,
              UInt4, Int2, UInt2, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ,
              Float4E2M1, Float8E8M0>(want.dtype(),
                                      [&]<class T>() { difference = differ<T>(got, want); });
  return difference;
}

std::string compare(const Datum& got, const Datum& want) {
  if (got.kind != want.kind) return "a value with the wrong type";
  if (got.kind == Datum::Kind::tensor) return compare(got.tensor, want.tensor);
  if (got.kind == Datum::Kind::none) return {};
  if (got.items->size() != want.items->size())
    return "a sequence of " + std::to_string(got.items->size()) + ", not " +
           std::to_string(want.items->size());
  for (std::size_t i = 0; i < want.items->size(); ++i)
    if (std::string why = compare((*got.items)[i], (*want.items)[i]); !why.empty())
      return "item " + std::to_string(i) + ": " + why;
  return {};
}

// Generates the inputs of a light model, which are not stored: i / n in row-major order.
Datum counting(const onnx::Type& type) {
  Shape shape;
  for (const onnx::Type::Dim& dim : type.dims.value_or(std::vector<onnx::Type::Dim>{}))
    shape.push_back(dim.size > 0 ? dim.size : 1);
  const Tensor tensor(DType::f32, shape);
  const auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(values.size()));
  return tensor;
}

struct DataSet {
  std::vector<Datum> inputs;
  std::vector<std::pair<std::size_t, Datum>> outputs;  // by index
};

onnx::Type type_of(const std::vector<onnx::ValueInfo>& list, std::size_t i) {
  return i < list.size() ? list[i].type.value_or(onnx::Type{}) : onnx::Type{};
}

// The inputs of the graph without initializers.
std::vector<onnx::ValueInfo> required_inputs(const onnx::Graph& graph) {
  std::vector<onnx::ValueInfo> inputs;
  for (const auto& info : graph.inputs)
    if (!graph.initializers.contains(info.name)) inputs.push_back(info);
  return inputs;
}

std::vector<DataSet> read_data(const fs::path& file, const onnx::Model& model) {
  const std::vector<onnx::ValueInfo> inputs = required_inputs(model.graph);
  std::vector<DataSet> sets;
  const fs::path light = file.parent_path() / (file.stem().string() + "_output_0.pb");
  if (fs::exists(light)) {
    DataSet& set = sets.emplace_back();
    for (const auto& info : inputs)
      set.inputs.push_back(counting(info.type.value_or(onnx::Type{})));
    set.outputs.emplace_back(0, value_in(light, type_of(model.graph.outputs, 0)));
    return sets;
  }
  for (int k = 0;; ++k) {
    const fs::path folder = file.parent_path() / ("test_data_set_" + std::to_string(k));
    if (!fs::is_directory(folder)) return sets;
    DataSet& set = sets.emplace_back();
    const auto path = [&](std::string_view what, std::size_t i) {
      return folder / (std::string(what) + "_" + std::to_string(i) + ".pb");
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      set.inputs.push_back(
          fs::exists(path("input", i)) ? value_in(path("input", i), type_of(inputs, i)) : Datum());
    for (std::size_t i = 0; i < model.graph.outputs.size(); ++i)
      if (fs::exists(path("output", i)))
        set.outputs.emplace_back(i, value_in(path("output", i), type_of(model.graph.outputs, i)));
  }
}

RanOn ran_on(const Session& session, const DataSet& set) {
  std::vector<TensorType> types;
  for (const Datum& input : set.inputs) {
    if (input.kind != Datum::Kind::tensor) return RanOn::cpu;
    types.push_back({input.tensor.dtype(), input.tensor.shape()});
  }
  const Session::Compiled compiled = session.compiled(types);
  const auto* const program = dynamic_cast<const CudaProgram*>(compiled.program.get());
  if (program == nullptr) return RanOn::cpu;
  const CudaReport report = program->report();
  if (report.on_host.empty()) return RanOn::gpu;
  return report.device_steps > 0 ? RanOn::both : RanOn::cpu;
}

// The devices it ran on.
RanOn run_checked(const fs::path& file, compute::Workers& workers,
                  const std::shared_ptr<cuda::Context>& gpu) {
  const onnx::Model model = onnx::read(file);
  const std::vector<DataSet> sets = read_data(file, model);
  require(!sets.empty(), "there are no expected outputs beside it");
  std::vector<SessionOptions> configurations{{.compile = false}, {}};
  if (gpu) configurations = {{.gpu = gpu}};
  RanOn where = gpu ? RanOn::gpu : RanOn::cpu;
  for (const SessionOptions& configuration : configurations) {
    const Session session(import_onnx(model), workers, configuration);
    for (const DataSet& set : sets) {
      const std::vector<Datum> results = session.run(set.inputs);
      for (const auto& [index, want] : set.outputs)
        if (std::string why = compare(results[index], want); !why.empty())
          throw Error(Code::internal, std::string(configuration.compile ? "compiled, " : "") +
                                          "output " + std::to_string(index) + ": " + why);
      if (gpu) where = std::min(where, ran_on(session, set));
    }
    if (const std::string why = session.gpu_failure(); !why.empty())
      throw Error(Code::internal, "the GPU failed: " + why);
  }
  return where;
}

}  // namespace

std::string_view to_string(CaseStatus status) noexcept {
  switch (status) {
    case CaseStatus::passed: return "passed";
    case CaseStatus::failed: return "failed";
    case CaseStatus::unsupported: return "unsupported";
  }
  return "";
}

std::string_view to_string(RanOn where) noexcept {
  switch (where) {
    case RanOn::cpu: return "cpu";
    case RanOn::both: return "both";
    case RanOn::gpu: return "cuda";
  }
  return "";
}

std::vector<fs::path> find_cases(const fs::path& folder) {
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  return models;
}

CaseResult run_case(const fs::path& model, compute::Workers& workers,
                    const std::shared_ptr<cuda::Context>& gpu) {
  const bool plain = model.filename() == "model.onnx";
  CaseResult result{.name =
                        plain ? model.parent_path().filename().string() : model.stem().string()};
  try {
    result.ran_on = run_checked(model, workers, gpu);
  } catch (const Error& error) {
    result.status =
        error.code() == Code::unavailable ? CaseStatus::unsupported : CaseStatus::failed;
    result.reason = error.reason();
  } catch (const std::exception& error) {
    result.status = CaseStatus::failed;
    result.reason = error.what();
  }
  return result;
}

}  // namespace sluice::engine
