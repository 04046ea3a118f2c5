// The arena of whole networks, relative to the peak of live bytes.
#include <gmock/gmock.h>

#include "engine/graph/graph_for_tests.h"
#include "engine/inspect.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

using List = std::vector<std::int64_t>;

class Network {
 public:
  explicit Network(const Shape& in) : type_{DType::f32, in}, x_(b_.input("x")) {}

  ValueId in() const { return x_; }
  ValueId op(const std::string& name, std::vector<ValueId> inputs) {
    return b_.node(name, std::move(inputs));
  }
  ValueId joined(std::vector<ValueId> inputs, std::int64_t axis) {
    return b_.node("Concat", std::move(inputs), {{"axis", axis}});
  }
  ValueId linear(ValueId x, std::int64_t from, std::int64_t to) {
    return op("Add",
              {op("MatMul", {x, b_.constant(varied({from, to}))}), b_.constant(varied({to}))});
  }
  ValueId conv(ValueId x, std::int64_t from, std::int64_t to, std::int64_t window,
               std::int64_t stride = 1) {
    const std::int64_t pad = window / 2;
    return op("Relu", {b_.node("Conv", {x, b_.constant(varied({to, from, window, window}))},
                               {{"kernel_shape", List{window, window}},
                                {"strides", List{stride, stride}},
                                {"pads", List{pad, pad, pad, pad}}})});
  }
  ValueId reshaped(ValueId x, const List& to) { return op("Reshape", {x, b_.integers(to)}); }
  ValueId transposed(ValueId x, const List& order) {
    return b_.node("Transpose", {x}, {{"perm", order}});
  }
  ValueId doubled(ValueId x) {  // upsamples an image by two
    return b_.node("Resize",
                   {x, kNoValue, b_.constant(Tensor::of<float>(std::vector<float>{1, 1, 2, 2}))},
                   {{"mode", std::string("nearest")}});
  }

  ProgramUse use(ValueId out) {
    compute::Workers workers(1);
    const Session session(b_.output(out).take(), workers);
    const Session::Compiled compiled = session.compiled(std::span(&type_, 1));
    EXPECT_TRUE(compiled.program) << compiled.why_not;
    return compiled.program ? use_of(*compiled.program) : ProgramUse{};
  }

 private:
  GraphBuilder b_;
  TensorType type_;
  ValueId x_;
};

void expect_near_least(const ProgramUse& use) {
  EXPECT_GT(use.min_arena, 0u);
  EXPECT_LE(use.arena_overhead(), 1.15) << use.arena << " bytes, alive at once " << use.min_arena;
  EXPECT_LT(use.arena, use.unshared);
}

TEST(MemoryTest, ArenaOfAnEncoderIsNearTheLowerBound) {
  constexpr std::int64_t kBatch = 2, kLength = 64, kWidth = 96, kHeads = 4;
  Network n({kBatch, kLength, kWidth});
  ValueId x = n.in();
  const auto heads = [&](ValueId of) {
    return n.transposed(n.reshaped(of, {kBatch, kLength, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  };
  for (int layer = 0; layer < 3; ++layer) {
    const ValueId q = heads(n.linear(x, kWidth, kWidth)), k = heads(n.linear(x, kWidth, kWidth)),
                  v = heads(n.linear(x, kWidth, kWidth));
    const ValueId scores = n.op("Softmax", {n.op("MatMul", {q, n.transposed(k, {0, 1, 3, 2})})});
    const ValueId mixed = n.reshaped(n.transposed(n.op("MatMul", {scores, v}), {0, 2, 1, 3}),
                                     {kBatch, kLength, kWidth});
    x = n.op("Add", {x, n.linear(mixed, kWidth, kWidth)});
    const ValueId wide = n.op("Relu", {n.linear(x, kWidth, 4 * kWidth)});
    x = n.op("Add", {x, n.linear(wide, 4 * kWidth, kWidth)});
  }
  expect_near_least(n.use(x));
}

TEST(MemoryTest, ArenaOfResidualBlocksIsNearTheLowerBound) {
  Network n({2, 16, 32, 32});
  ValueId x = n.in();
  for (int i = 0; i < 4; ++i)
    x = n.op("Relu", {n.op("Add", {x, n.conv(n.conv(n.conv(x, 16, 8, 1), 8, 8, 3), 8, 16, 1)})});
  expect_near_least(n.use(n.conv(x, 16, 32, 3, 2)));
}

TEST(MemoryTest, ArenaOfDenseBlocksIsNearTheLowerBound) {
  Network n({1, 16, 24, 24});
  ValueId x = n.in();
  std::int64_t channels = 16;
  for (int i = 0; i < 6; ++i, channels += 8)
    x = n.joined({x, n.conv(n.conv(x, channels, 16, 1), 16, 8, 3)}, 1);
  expect_near_least(n.use(n.conv(x, channels, 8, 1)));
}

TEST(MemoryTest, ArenaOfBranchesIsNearTheLowerBound) {
  Network n({1, 32, 24, 24});
  ValueId x = n.in();
  for (int i = 0; i < 3; ++i)
    x = n.joined({n.conv(x, 32, 8, 1), n.conv(n.conv(x, 32, 12, 1), 12, 8, 3),
                  n.conv(n.conv(x, 32, 6, 1), 6, 8, 5), n.conv(x, 32, 8, 3)},
                 1);
  expect_near_least(n.use(x));
}

TEST(MemoryTest, ArenaOfAnHourglassIsNearTheLowerBound) {
  Network n({1, 8, 64, 64});
  std::vector<ValueId> levels;
  ValueId x = n.conv(n.in(), 8, 8, 3);
  std::int64_t channels = 8;
  for (int i = 0; i < 3; ++i, channels *= 2) {
    levels.push_back(x);
    x = n.conv(n.conv(x, channels, 2 * channels, 3, 2), 2 * channels, 2 * channels, 3);
  }
  for (int i = 2; i >= 0; --i, channels /= 2) {
    const ValueId up = n.conv(n.doubled(x), channels, channels / 2, 3);
    x = n.conv(n.joined({levels[static_cast<std::size_t>(i)], up}, 1), channels, channels / 2, 3);
  }
  expect_near_least(n.use(x));
}

}  // namespace
}  // namespace sluice::engine
