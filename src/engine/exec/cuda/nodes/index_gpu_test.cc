// Indices and lengths that are out of range: an error that names the node, as on the CPU.
#include "device/cuda/device_buffer.h"
#include "engine/encoder_for_tests.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"

namespace sluice::engine {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 10, kWide = 12;

// Distinct indices in each row: the order of two updates of one element is undefined.
Tensor indices(DType dtype, const Shape& shape, std::int64_t first) {
  const Tensor made(dtype, shape);
  const std::int64_t wide = shape[shape.rank() - 1];
  for (std::int64_t i = 0; i < made.size(); ++i) {
    const std::int64_t index = first + i / wide;
    if (dtype == DType::i64)
      made.values<std::int64_t>()[static_cast<std::size_t>(i)] = index;
    else
      made.values<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(index);
  }
  return made;
}
// Replaces one of the indices.
Tensor with(Tensor all, std::int64_t at, std::int64_t index) {
  if (all.dtype() == DType::i64)
    all.values<std::int64_t>()[static_cast<std::size_t>(at)] = index;
  else
    all.values<std::int32_t>()[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(index);
  return all;
}

struct IndexOp {
  const char* name;
  const char* op;
  Shape indices;
  Shape updates;  // rank 0: none
  std::vector<std::pair<std::string, Attributes::Any>> attributes{};
};
std::ostream& operator<<(std::ostream& to, const IndexOp& one) { return to << one.name; }

const IndexOp kOps[] = {
    {"Gather", "Gather", {2, 5}, {}},
    {"GatherAlongAxis0", "Gather", {7}, {}, {{"axis", std::int64_t{0}}}},
    {"GatherElements", "GatherElements", {4, kWide}, {}},
    {"GatherNdOfRows", "GatherND", {6, 1}, {}},
    {"GatherNdOfElements", "GatherND", {3, 2}, {}},
    {"ScatterElements", "ScatterElements", {3, kWide}, {3, kWide}},
    {"ScatterElementsAdd",
     "ScatterElements",
     {3, kWide},
     {3, kWide},
     {{"reduction", std::string("add")}}},
    {"ScatterNd", "ScatterND", {4, 1}, {4, kWide}},
    {"ScatterNdMax", "ScatterND", {4, 1}, {4, kWide}, {{"reduction", std::string("max")}}},
};

std::string refusal(const Program& program, const std::vector<Tensor>& inputs) {
  try {
    program.run(inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
    return error.what();
  }
  return "none";
}

class CudaIndexOpTest : public CudaProgramCases<IndexOp> {};

TEST_P(CudaIndexOpTest, IndexOutOfRangeNamesItsNode) {
  const IndexOp& one = GetParam();
  for (const DType dtype : {DType::i64, DType::i32}) {
    SCOPED_TRACE(std::string(one.op) + " " + std::string(to_string(dtype)));
    GraphBuilder b(18);
    const ValueId data = b.input("data"), at = b.input("at", dtype);
    std::vector<ValueId> from{data, at};
    if (one.updates.rank() > 0) from.push_back(b.constant(varied(one.updates, 3)));
    const Graph graph = b.output(b.node(one.op, from, one.attributes)).take();
    const Tensor x = varied({kRows, kWide}, 1), good = indices(dtype, one.indices, 1);
    const auto program = compile(graph, {x, good}, Precision::f32);
    ASSERT_THAT(program->report().on_host, testing::IsEmpty());
    const std::vector<Tensor> want = expected(graph, {x, good});
    std::vector<std::int64_t> wrong{kRows + kWide, -kRows - kWide - 1};
    if (dtype == DType::i64)
      for (const std::int64_t far : {std::int64_t{1} << 40, -(std::int64_t{1} << 40), INT64_MIN,
                                     INT64_MAX, (std::int64_t{1} << 32) + 1})
        wrong.push_back(far);
    for (const std::int64_t index : wrong) {  // launched one by one, captured, replayed
      const Tensor bad = with(indices(dtype, one.indices, 1), good.size() - 1, index);
      EXPECT_THAT(refusal(*program, {x, bad}), HasSubstr(std::string(one.op) + " node")) << index;
      expect_close(*program, program->run(std::vector<Tensor>{x, good}), want, 1e-6);
    }
    const Tensor last = with(indices(dtype, one.indices, 1), 0, -1);  // counted from the end
    EXPECT_EQ(refusal(*program, {x, last}), "none");
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaIndexOpTest, testing::ValuesIn(kOps),
                         [](const auto& one) { return case_name(one.param.name); });

class CudaIndexTest : public CudaProgramTest {};

TEST_F(CudaIndexTest, FirstOfTwoFailingNodesIsNamed) {
  GraphBuilder b;
  const ValueId first = b.input("first", DType::i64), second = b.input("second", DType::i64);
  const ValueId table = b.constant(varied({kRows, kWide}, 1));
  const ValueId one = b.node("Gather", {table, first}), two = b.node("Gather", {table, second});
  const Graph graph = b.output(b.node("Add", {one, two})).take();
  const Tensor good = indices(DType::i64, {4}, 2), bad = indices(DType::i64, {4}, kRows);
  const auto program = compile(graph, {good, good}, Precision::f32, false);
  EXPECT_THAT(refusal(*program, {bad, bad}), HasSubstr("'" + graph.nodes[0].name + "'"));
  EXPECT_THAT(refusal(*program, {good, bad}), HasSubstr("'" + graph.nodes[1].name + "'"));
}

TEST_F(CudaIndexTest, InputsOnTheDeviceAreCheckedToo) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", DType::i64);
  const Graph graph =
      b.output(b.node("Gather", {b.constant(varied({kRows, kWide}, 1)), ids})).take();
  const Tensor good = indices(DType::i64, {4}, 2), bad = indices(DType::i64, {4}, kRows);
  const auto program = compile(graph, {good}, Precision::f32);
  const auto in = device::device_buffer(good.bytes()), out = device::device_buffer(4 * kWide * 4);
  void* const from[] = {in.get()};
  void* const to[] = {out.get()};
  for (int i = 0; i < 3; ++i) {
    device::check(cudaMemcpy(in.get(), bad.data(), bad.bytes(), cudaMemcpyHostToDevice));
    EXPECT_THROW(program->run_on_device(from, to, 3), Error);
    device::check(cudaMemcpy(in.get(), good.data(), good.bytes(), cudaMemcpyHostToDevice));
    EXPECT_NO_THROW(program->run_on_device(from, to, 3));
  }
}

TEST_F(CudaIndexTest, LengthsOutOfRangeNameTheirNode) {
  const Tensor x = varied({5, 3, 8}, 1);  // time, batch, values
  const std::vector<Tensor> lengths{indices(DType::i32, {3}, 5),
                                    with(indices(DType::i32, {3}, 5), 1, 6),
                                    with(indices(DType::i32, {3}, 5), 2, -1)};
  GraphBuilder b;
  const ValueId in = b.input("x"), count = b.input("lengths", DType::i32);
  const ValueId w = b.constant(varied({1, 32, 8}, 2)), r = b.constant(varied({1, 32, 8}, 3));
  const Graph graph =
      b.output(b.node("LSTM", {in, w, r, kNoValue, count}, {{"hidden_size", std::int64_t{8}}}))
          .take();
  const auto program = compile(graph, {x, lengths[0]}, Precision::f32);
  ASSERT_THAT(program->report().on_host, testing::IsEmpty());
  EXPECT_EQ(refusal(*program, {x, lengths[0]}), "none");
  for (const Tensor& bad : {lengths[1], lengths[2]})
    EXPECT_THAT(refusal(*program, {x, bad}), HasSubstr("LSTM node"));
}

// An encoder that skips padding, with and without CUDA graphs.
TEST_F(CudaIndexTest, TokenOutsideTheVocabularyNamesTheEmbedding) {
  const Graph graph = EncoderForTests(EncoderOutput::all).take();
  for (const bool skips : {false, true}) {
    const Session session(graph, workers, {.gpu = make_cuda_context({}), .skip_padding = skips});
    for (int time = 0; time < 3; ++time) {
      std::vector<Tensor> inputs = sequences({30, 1, 17, 64}, 64);
      const std::vector<Datum> good(inputs.begin(), inputs.end());
      EXPECT_NO_THROW(session.run(good));
      inputs[0] = inputs[0].reshaped(inputs[0].shape());
      const Tensor ids(inputs[0].dtype(), inputs[0].shape());
      std::memcpy(ids.data(), inputs[0].data(), ids.bytes());
      const std::vector<Tensor> bad{with(ids, 3, 1'000'000), inputs[1]};
      std::vector<Datum> given(bad.begin(), bad.end());
      for (std::size_t i = 2; i < inputs.size(); ++i) given.emplace_back(inputs[i]);
      try {
        session.run(given);
        ADD_FAILURE() << "a token beyond the vocabulary was taken";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("Gather node"));
      }
    }
    EXPECT_EQ(session.gpu_failure(), "");
    EXPECT_EQ(session.fallbacks().total(), 0u);
  }
}

}  // namespace
}  // namespace sluice::engine
