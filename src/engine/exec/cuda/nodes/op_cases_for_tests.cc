#include "engine/exec/cuda/nodes/op_cases_for_tests.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "device/cuda/check.h"
#include "device/cuda/device_buffer.h"
#include "engine/ops/convert.h"

namespace sluice::engine::cuda {

Shape Random::shape(int min_rank, int max_rank, std::int64_t max_size) {
  Shape shape;
  const auto rank = static_cast<int>(between(min_rank, max_rank));
  for (int i = 0; i < rank; ++i) shape.push_back(between(1, max_size));
  return shape;
}

Tensor Random::numbers(DType type, const Shape& shape, double low, double high) {
  const Tensor wide(DType::f64, shape);
  std::uniform_real_distribution<double> number(low, high);
  for (double& value : wide.values<double>()) {
    value = number(engine_);
    if (!is_float(type)) value = std::floor(value);
    if (type == DType::boolean) value = coin() ? 1 : 0;
  }
  return converted(wide, type);
}

namespace {

class Kept final : public OutputSink {
 public:
  explicit Kept(int count) : all(static_cast<std::size_t>(count)) {}
  Tensor allocate(std::size_t i, DType dtype, const Shape& shape) override {
    return all[i] = Tensor(dtype, shape);
  }
  void set(std::size_t i, const Datum& value) override { all[i] = value.tensor; }

  std::vector<Tensor> all;
};

void name_outputs(OpCase& what) {
  what.node.outputs.clear();
  for (int i = 0; i < what.outputs; ++i) what.node.outputs.push_back(100 + i);
}

// A graph with a value for each input and output.
Graph graph_of(OpCase& what, const std::vector<Tensor>& like) {
  Graph graph;
  const auto add = [&](const Tensor& of) {
    Value value{.name = std::to_string(graph.values.size()), .dtype = of.dtype()};
    value.dims.emplace();
    for (const std::int64_t dim : of.shape()) value.dims->push_back({.size = dim, .symbol = ""});
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  what.node.inputs.clear();
  what.node.outputs.clear();
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const ValueId id = what.inputs[i] ? add(what.inputs[i]) : kNoValue;
    if ((what.constants >> i & 1u) != 0) graph[id].constant = what.inputs[i];
    what.node.inputs.push_back(id);
  }
  for (const Tensor& output : like) what.node.outputs.push_back(add(output));
  return graph;
}

std::string describe_case(const OpCase& what) {
  std::string text;
  for (const Tensor& input : what.inputs)
    text += (text.empty() ? "" : ", ") + (input ? to_string(input.shape()) : std::string("-"));
  return text;
}

}  // namespace

std::vector<Tensor> on_cpu(const OpCase& what) {
  OpCase now = what;
  name_outputs(now);
  for (std::size_t i = 0; i < now.inputs.size(); ++i)
    now.node.inputs.push_back(now.inputs[i] ? static_cast<ValueId>(i) : kNoValue);
  std::vector<Datum> inputs;
  for (const Tensor& input : now.inputs) inputs.push_back(input ? Datum(input) : Datum());
  Kept kept(now.outputs);
  compute::Workers workers(2);
  OpCall call(now.node, inputs, kept, workers);
  op_of(now.node).run(call);
  return kept.all;
}

std::vector<Tensor> on_gpu(OpCase what, const std::vector<Tensor>& like, Context& context) {
  const Graph graph = graph_of(what, like);
  const std::unique_ptr<Kernel> kernel = make_kernel(graph, what.node, context);
  if (!kernel) {
    ADD_FAILURE() << "CUDA has no kernel for " << what.node.op << " of " << describe_case(what);
    return {};
  }
  std::vector<device::DeviceBuffer> held;
  const auto place = [&](const Tensor& tensor, bool poison) {
    held.push_back(device::device_buffer(tensor.bytes() + 256));
    if (poison)
      device::check(cudaMemset(held.back().get(), 0xff, tensor.bytes() + 256));
    else if (tensor.bytes() > 0)
      device::check(
          cudaMemcpy(held.back().get(), tensor.data(), tensor.bytes(), cudaMemcpyHostToDevice));
    return held.back().get();
  };
  std::vector<void*> inputs, outputs;
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const bool known = (what.constants >> i & 1u) != 0;
    const bool there = what.inputs[i] && (!known || kernel->reads_constant(i));
    inputs.push_back(there ? place(what.inputs[i], false) : nullptr);
  }
  for (const Tensor& output : like) outputs.push_back(place(output, true));
  held.push_back(device::device_buffer(kernel->scratch() + 256));
  device::check(cudaDeviceSynchronize());  // the context's stream does not wait for the copies
  kernel->run({inputs, outputs, held.back().get(), context.stream()});
  device::check(cudaStreamSynchronize(context.stream()));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < like.size(); ++i) {
    results.emplace_back(like[i].dtype(), like[i].shape());
    if (like[i].bytes() > 0)
      device::check(
          cudaMemcpy(results[i].data(), outputs[i], like[i].bytes(), cudaMemcpyDeviceToHost));
  }
  return results;
}

namespace {

double unit_of(DType type) {
  if (type == DType::f16) return 0x1p-11;
  if (type == DType::bf16) return 0x1p-8;
  return type == DType::f64 ? 0x1p-53 : 0x1p-24;
}

}  // namespace

double worst_error(const Tensor& got, const Tensor& want) {
  if (!is_float(want.dtype())) {
    const bool same = want.bytes() == 0 || std::memcmp(got.data(), want.data(), want.bytes()) == 0;
    return same ? 0 : INFINITY;
  }
  const Tensor a = converted(got, DType::f64), b = converted(want, DType::f64);
  double worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double x = a.values<double>()[static_cast<std::size_t>(i)];
    const double y = b.values<double>()[static_cast<std::size_t>(i)];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::fabs(x - y) / (unit_of(want.dtype()) * std::max(1.0, std::fabs(y)));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

void check(const OpRow& row, Context& context) {
  for (const DType type : row.types) {
    double worst = 0, allowed = 0;
    std::string where;
    for (unsigned seed = 0; seed < 6; ++seed) {
      Random random(seed * 7919 + static_cast<unsigned>(type));
      const OpCase what = row.make(random, type);
      const std::string text =
          row.name + " of " + std::string(to_string(type)) + " " + describe_case(what);
      SCOPED_TRACE(text);
      const std::vector<Tensor> want = on_cpu(what), got = on_gpu(what, want, context);
      if (got.size() != want.size()) return;
      allowed = 8 * what.times;  // a few rounding errors on either side
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double error = worst_error(got[i], want[i]);
        EXPECT_LE(error, allowed) << "output " << i;
        if (error >= worst) worst = error, where = describe_case(what);
      }
    }
    std::printf("%-28s %-5s worst %7.2f of %7.0f roundings, at %s\n", row.name.c_str(),
                std::string(to_string(type)).c_str(), worst, allowed, where.c_str());
  }
}

Context& test_context() {
  static Context context{Options{}};
  return context;
}

}  // namespace sluice::engine::cuda
