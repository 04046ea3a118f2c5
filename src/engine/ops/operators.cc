#include "engine/ops/operators.h"

#include <algorithm>

#include "engine/graph/graph_editor.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {
namespace {

// Operators evaluated when a graph is compiled, so that no device runs them.
constexpr std::string_view kFolded[] = {"Constant", "ConstantOfShape", "Range", "Shape", "Size"};

bool on_cuda(const OperatorRow& row, const std::vector<CudaOperator>& kernels) {
  if (!row.domain.empty()) return false;
  Node node;
  node.op = row.name;
  node.version = row.versions.back();
  // Passes replace the ONNX operator by the fused one of the same name.
  const bool kernel = std::ranges::any_of(kernels, [&](const CudaOperator& has) {
    return has.op == row.name && (has.domain.empty() || has.domain == kFused);
  });
  return kernel || is_view(node) || std::ranges::find(kFolded, row.name) != std::end(kFolded);
}

struct Group {
  std::string_view name;
  Types types;
};
const Group kGroups[] = {
    {"floats", kReals},         {"integers", kIntegers},     {"low precision", kLowPrecision},
    {"bool", {DType::boolean}}, {"string", {DType::string}}, {"complex", {DType::c64, DType::c128}},
};

bool has_all(Types types, Types group) {
  for (int i = 1; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    if (group.has(type) && !types.has(type)) return false;
  }
  return true;
}

}  // namespace

std::vector<OperatorRow> operator_rows() {
  const auto kernels = cuda_operators();
  std::vector<OperatorRow> rows;
  for (const Op* op : all_ops()) {
    if (op->domain == kFused) continue;
    if (rows.empty() || rows.back().name != op->name || rows.back().domain != op->domain)
      rows.push_back({std::string(op->domain), std::string(op->name), {}, {}, {}});
    rows.back().versions.push_back(op->since);
    rows.back().types = op->types;
  }
  if (kernels)
    for (OperatorRow& row : rows) row.cuda = on_cuda(row, *kernels);
  return rows;
}

std::string types_text(Types types) {
  if (has_all(types, kAnyType)) return "all";
  std::string text;
  const auto add = [&](std::string_view name) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  };
  for (const Group& group : kGroups) {
    if (has_all(types, group.types)) {
      add(group.name);
      continue;
    }
    for (int i = 1; i < kDTypes; ++i) {
      const auto type = static_cast<DType>(i);
      if (group.types.has(type) && types.has(type)) add(to_string(type));
    }
  }
  return text.empty() ? "any" : text;  // it has no tensor input to check
}

}  // namespace sluice::engine
