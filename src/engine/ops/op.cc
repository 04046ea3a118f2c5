#include "engine/ops/op.h"

#include <algorithm>

#include "engine/ops/families.h"
#include "engine/ops/max_inputs.h"

namespace sluice::engine {

void TensorList::add(Tensor tensor) {
  if (all_.size() == all_.capacity()) {
    const std::size_t count = std::max<std::size_t>(8, 2 * all_.size());
    constexpr std::size_t kEach = 2 * sizeof(Tensor);  // the tensor and its control block
    reservation_ = Tensor(DType::u8, {static_cast<std::int64_t>(count * kEach)});
    all_.reserve(count);
  }
  all_.push_back(std::move(tensor));
}

Datum::Datum(TensorList list) : kind(Kind::sequence) {
  const auto kept = std::make_shared<const TensorList>(std::move(list));
  items = {kept, &kept->all()};
}

Datum::Datum(const std::vector<Tensor>& list) : kind(Kind::sequence) {
  auto kept = std::make_shared<TensorList>();
  for (const Tensor& one : list) kept->add(one);
  items = {kept, &kept->all()};
}

const Datum& OpCall::datum(std::size_t i) const {
  require(has(i), "input " + std::to_string(i) + " is missing");
  return inputs_[i];
}

const Tensor& OpCall::input(std::size_t i) const {
  const Datum& value = datum(i);
  require(value.kind == Datum::Kind::tensor, "input " + std::to_string(i) + " is no tensor");
  return value.tensor;
}

const std::vector<Tensor>& OpCall::sequence(std::size_t i) const {
  const Datum& value = datum(i);
  require(value.kind == Datum::Kind::sequence, "input " + std::to_string(i) + " is no sequence");
  return *value.items;
}

std::vector<std::int64_t> OpCall::integers(std::size_t i) const {
  const Tensor& tensor = input(i);
  if (tensor.dtype() == DType::i32) {
    const auto narrow = tensor.values<std::int32_t>();
    return {narrow.begin(), narrow.end()};
  }
  require(tensor.dtype() == DType::i64, "input " + std::to_string(i) + " must be i64, not " +
                                            std::string(to_string(tensor.dtype())));
  const auto values = tensor.values<std::int64_t>();
  return {values.begin(), values.end()};
}

Tensor OpCall::output(std::size_t i, DType dtype, const Shape& shape) {
  const bool elsewhere = sink_ != nullptr && wants(i);
  const Tensor made = elsewhere ? sink_->allocate(i, dtype, shape) : Tensor(dtype, shape);
  if (sink_ == nullptr && i < outputs_.size()) outputs_[i] = made;
  made_.push_back(made);
  return made;
}

void OpCall::set_output(std::size_t i, Datum value) {
  if (sink_ != nullptr) {
    if (wants(i)) sink_->set(i, value);
  } else if (i < outputs_.size()) {
    outputs_[i] = std::move(value);
  }
}

const Op* find_op(const Node& node) {
  const Op* best = nullptr;
  for (const std::span<const Op> family : families())
    for (const Op& op : family)
      if (op.name == node.op && op.domain == node.domain && op.since <= node.version &&
          (best == nullptr || op.since > best->since))
        best = &op;
  return best;
}

const Op& op_of(const Node& node) {
  const Op* const op = find_op(node);
  if (op != nullptr) {
    check_inputs(node);
    return *op;
  }
  const std::string domain = node.domain.empty() ? "" : node.domain + ".";
  throw Error(Code::unavailable, describe(node) + ": operator " + domain + node.op + " of opset " +
                                     std::to_string(node.version) + " is not supported");
}

void check_type(const Op& op, std::span<const Datum> inputs) {
  for (const Datum& input : inputs) {
    if (input.kind != Datum::Kind::tensor) continue;
    if (!op.types.has(input.tensor.dtype())) unsupported_type(input.tensor.dtype());
    return;
  }
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const std::span<const Op> family : families())
    for (const Op& op : family) ops.push_back(&op);
  std::sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) {
    return std::tie(a->domain, a->name, a->since) < std::tie(b->domain, b->name, b->since);
  });
  return ops;
}

void unsupported_type(DType type) {
  throw Error(Code::unavailable,
              "elements of type " + std::string(to_string(type)) + " are not supported");
}

}  // namespace sluice::engine
