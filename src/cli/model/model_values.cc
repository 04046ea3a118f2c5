#include "cli/model/model_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "engine/ops/op.h"
#include "formats/npy/npy.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using engine::Graph;
using engine::Value;
using engine::ValueId;

[[noreturn]] void refuse_value(const std::string& why) { throw Error(Code::invalid_argument, why); }

std::string takes(const Graph& graph) {
  return "; the model takes\n" + engine::list_inputs(graph) +
         "Give each as --input NAME=x.npy, or none for random numbers.";
}

// The index of the name in `ids`; ids.size() where it is missing.
std::size_t named(const Graph& graph, const std::vector<ValueId>& ids, std::string_view name) {
  const auto found = std::ranges::find_if(ids, [&](ValueId id) { return graph[id].name == name; });
  return static_cast<std::size_t>(found - ids.begin());
}

std::string numpy_name(DType type) {
  switch (type) {
    case DType::boolean: return "bool";
    case DType::f16: return "float16";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    default: break;
  }
  const std::string name(to_string(type));  // i64, u8
  return (name[0] == 'u' ? "uint" : "int") + name.substr(1);
}

Tensor checked(const Graph& graph, const Value& value, const std::string& file) {
  const Tensor tensor = npy::read(file);
  if (value.dtype != DType::none && tensor.dtype() != value.dtype)
    refuse_value(fmt::format("{} holds {}, and '{}' is {}: save it as x.astype('{}')", file,
                             to_string(tensor.dtype()), value.name, declared(value),
                             numpy_name(value.dtype)));
  bool fits = !value.dims || value.dims->size() == static_cast<std::size_t>(tensor.rank());
  for (int i = 0; fits && value.dims && i < tensor.rank(); ++i) {
    const std::int64_t size = (*value.dims)[static_cast<std::size_t>(i)].size;
    fits = size < 0 || size == tensor.shape()[i];
  }
  if (!fits)
    refuse_value(fmt::format("{} is of shape {}, and '{}' is {}{}", file, to_string(tensor.shape()),
                             value.name, declared(value), takes(graph)));
  return tensor;
}

// A name that can be one in a folder.
std::string file_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 32; },
      '_');
  if (name.empty() || name[0] == '.') name.insert(0, "output");
  return name.substr(0, 200) + ".npy";
}

// Names that differ in letters no file may have would overwrite each other.
void require_different(const std::vector<std::string>& files) {
  std::set<std::string> seen;
  for (const std::string& file : files)
    if (!file.empty() && !seen.insert(file).second)
      refuse_value("two outputs would be written to " + file + ": name one with NAME=FILE");
}

template <class T>
Summary summary_of(const Tensor& tensor) {
  Summary s{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0,
            0};
  for (const T element : tensor.values<T>()) {
    const auto x = static_cast<double>(element);
    if (std::isnan(x)) {
      ++s.not_numbers;
      continue;
    }
    s.min = std::min(s.min, x);
    s.max = std::max(s.max, x);
    s.mean += x;
  }
  s.mean /= static_cast<double>(tensor.values<T>().size() - s.not_numbers);
  return s;
}

}  // namespace

std::vector<Tensor> read_inputs(const Graph& graph, const std::vector<std::string>& given) {
  std::vector<std::string> files(graph.inputs.size());
  for (const std::string& argument : given) {
    const std::size_t equals = argument.find('=');
    std::size_t i = equals == std::string::npos
                        ? graph.inputs.size()
                        : named(graph, graph.inputs, argument.substr(0, equals));
    const bool by_name = i < graph.inputs.size();
    if (equals != std::string::npos && !by_name && !fs::exists(argument))
      refuse_value("no input is called '" + argument.substr(0, equals) + "'" + takes(graph));
    if (!by_name) i = static_cast<std::size_t>(std::ranges::find(files, "") - files.begin());
    if (i == files.size()) refuse_value("--input " + argument + " is one too many" + takes(graph));
    if (!files[i].empty())
      refuse_value("'" + graph[graph.inputs[i]].name + "' is given twice" + takes(graph));
    files[i] = by_name ? argument.substr(equals + 1) : argument;
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Value& value = graph[graph.inputs[i]];
    if (files[i].empty()) refuse_value("'" + value.name + "' is not given" + takes(graph));
    tensors.push_back(checked(graph, value, files[i]));
  }
  return tensors;
}

std::vector<std::string> write_outputs(const Graph& graph, const std::vector<Tensor>& results,
                                       const std::vector<std::string>& wanted) {
  std::vector<std::string> files(results.size());
  for (const std::string& want : wanted) {
    const std::size_t equals = want.find('=');
    const std::size_t i = equals == std::string::npos
                              ? results.size()
                              : named(graph, graph.outputs, want.substr(0, equals));
    if (i < results.size()) {
      files[i] = want.substr(equals + 1);
      continue;
    }
    if (equals != std::string::npos) {
      std::string all;
      for (const ValueId id : graph.outputs) all += "\n  " + graph[id].name;
      refuse_value("no output is called '" + want.substr(0, equals) + "'; there are" + all);
    }
    for (std::size_t k = 0; k < results.size(); ++k)
      if (files[k].empty())
        files[k] = (fs::path(want) / file_name(graph[graph.outputs[k]].name)).string();
    require_different(files);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!files[i].empty()) npy::write(files[i], results[i]);
  return files;
}

Summary summarize(const Tensor& tensor) {
  Summary summary{};
  engine::visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t,
                      std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                      bool>(tensor.dtype(), [&]<class T>() { summary = summary_of<T>(tensor); });
  return summary;
}

std::string type_text(DType dtype, const Shape& shape) {
  return std::string(to_string(dtype)) + to_string(shape);
}

Json shape_json(const Shape& shape) { return Json(std::vector(shape.begin(), shape.end())); }

}  // namespace sluice::cli
