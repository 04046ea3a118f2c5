// Random numbers. With a seed, uniform and normal numbers and Dropout masks equal those of
// numpy.random.RandomState(seed), so runs are reproducible. Without a seed every run differs.
#include <cmath>
#include <random>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

class Random {
 public:
  explicit Random(std::uint32_t seed) : bits_(seed) {}

  double uniform() {  // [0, 1), 53 bits
    const auto high = static_cast<double>(bits_() >> 5), low = static_cast<double>(bits_() >> 6);
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  double normal() {  // by Marsaglia's polar method, two at a time
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double x, y, square;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    spare_ = factor * x;
    has_spare_ = true;
    return factor * y;
  }

 private:
  std::mt19937 bits_;
  double spare_ = 0;
  bool has_spare_ = false;
};

// The seed is a float attribute, except in Dropout, where it is an integer.
Random random_of(const OpCall& call) {
  const Attributes& a = call.attributes();
  if (!a.has("seed")) return Random(std::random_device{}());
  if (call.node.op == "Dropout") return Random(static_cast<std::uint32_t>(a.integer("seed")));
  const float seed = a.real("seed", 0);
  require(std::abs(seed) < 9e18f, "a seed that is no number");
  return Random(static_cast<std::uint32_t>(static_cast<std::int64_t>(seed)));
}

template <class Draw>
void fill_reals(const Tensor& out, Draw&& draw) {
  visit_reals(out.dtype(), [&]<class T>() {
    for (T& value : out.values<T>()) value = static_cast<T>(static_cast<Wide<T>>(draw()));
  });
}

void uniform(OpCall& call, DType dtype, const Shape& shape) {
  Random random = random_of(call);
  const auto low = static_cast<double>(call.attributes().real("low", 0));
  const auto high = static_cast<double>(call.attributes().real("high", 1));
  fill_reals(call.output(0, dtype, shape), [&] { return low + (high - low) * random.uniform(); });
}

void normal(OpCall& call, DType dtype, const Shape& shape) {
  Random random = random_of(call);
  const auto mean = static_cast<double>(call.attributes().real("mean", 0));
  const auto scale = static_cast<double>(call.attributes().real("scale", 1));
  fill_reals(call.output(0, dtype, shape), [&] { return mean + scale * random.normal(); });
}

template <void (*draw)(OpCall&, DType, const Shape&)>
void of_shape(OpCall& call) {
  require(call.attributes().has("shape"), "attribute 'shape' is missing");
  draw(call, call.attributes().dtype("dtype", DType::f32),
       checked_shape(call.attributes().integers("shape")));
}

template <void (*draw)(OpCall&, DType, const Shape&)>
void like(OpCall& call) {
  const Tensor& model = call.input(0);
  draw(call, call.attributes().dtype("dtype", model.dtype()), model.shape());
}

// Bernoulli: 1 with the probability given by the input.
void bernoulli(OpCall& call) {
  const Tensor& data = call.input(0);
  const Tensor out = call.output(0, call.attributes().dtype("dtype", data.dtype()), data.shape());
  Random random = random_of(call);
  std::vector<bool> drawn;
  visit_reals(data.dtype(), [&]<class T>() {
    for (const T& chance : data.values<T>()) {
      require(chance >= 0 && chance <= 1, "a probability outside of 0 to 1");
      drawn.push_back(random.uniform() < static_cast<double>(chance));
    }
  });
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>(
      out.dtype(), [&]<class T>() {
        for (std::size_t i = 0; i < drawn.size(); ++i) out.values<T>()[i] = T(drawn[i] ? 1 : 0);
      });
}

// Multinomial: samples classes from unnormalized log-probabilities.
void multinomial(OpCall& call) {
  const Tensor& data = call.input(0);
  require(data.rank() == 2 && data.shape()[1] > 0, "rows of log-probabilities");
  const std::int64_t count = call.attributes().integer("sample_size", 1);
  const std::int64_t rows = data.shape()[0];
  const auto classes = static_cast<std::size_t>(data.shape()[1]);
  const std::int64_t dims[] = {rows, count};
  const DType dtype = call.attributes().dtype("dtype", DType::i32);
  require(dtype == DType::i32 || dtype == DType::i64, "classes are i32 or i64");
  const Tensor out = call.output(0, dtype, checked_shape(dims));
  Random random = random_of(call);
  std::int64_t written = 0;
  visit_reals(data.dtype(), [&]<class T>() {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const logs = data.values<T>().data() + row * data.shape()[1];
      const auto max = static_cast<double>(*std::max_element(logs, logs + classes));
      std::vector<double> sums;
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c)
        sums.push_back(sum += std::exp(static_cast<double>(logs[c]) - max));
      for (std::int64_t i = 0; i < count; ++i, ++written) {
        const auto found = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sum);
        const std::int64_t chosen =
            std::min<std::int64_t>(found - sums.begin(), static_cast<std::int64_t>(classes) - 1);
        if (dtype == DType::i64)
          out.values<std::int64_t>()[static_cast<std::size_t>(written)] = chosen;
        else
          out.values<std::int32_t>()[static_cast<std::size_t>(written)] =
              static_cast<std::int32_t>(chosen);
      }
    }
  });
}

double dropout_ratio(const OpCall& call) {
  if (call.version() < 12) return static_cast<double>(call.attributes().real("ratio", 0.5f));
  if (!call.has(1)) return 0.5;
  const Tensor& ratio = call.input(1);
  require(ratio.size() == 1, "the ratio is one number");
  double value = 0;
  visit_reals(ratio.dtype(), [&]<class T>() { value = static_cast<double>(ratio.values<T>()[0]); });
  return value;
}

bool dropout_trains(const OpCall& call) {
  if (call.version() < 7) return !call.attributes().flag("is_test");
  return call.version() >= 12 && call.has(2) && flag_of(call, 2);
}

void dropout(OpCall& call) {
  const Tensor& data = call.input(0);
  const double ratio = dropout_ratio(call);
  const bool drops = dropout_trains(call) && ratio != 0;
  const Tensor kept(DType::boolean, data.shape());
  const auto flags = kept.values<bool>();
  if (!drops) {
    std::fill(flags.begin(), flags.end(), true);
    call.set_output(0, data);
  } else {
    require(ratio > 0 && ratio < 1, "a ratio of " + std::to_string(ratio));
    Random random = random_of(call);
    const Tensor out = call.output(0, data.dtype(), data.shape());
    const double scale = 1 / (1 - ratio);
    visit_reals(data.dtype(), [&]<class T>() {
      for (std::size_t i = 0; i < flags.size(); ++i) {
        flags[i] = random.uniform() >= ratio;
        out.values<T>()[i] = static_cast<T>(static_cast<Wide<T>>(
            flags[i] ? static_cast<double>(data.values<T>()[i]) * scale : 0.0));
      }
    });
  }
  if (!call.wants(1)) return;
  if (call.version() >= 10) return call.set_output(1, kept);
  const Tensor mask =
      call.output(1, data.dtype(), data.shape());  // the data's type in early opsets
  visit_reals(data.dtype(), [&]<class T>() {
    std::transform(flags.begin(), flags.end(), mask.values<T>().begin(),
                   [](bool flag) { return T(flag ? 1.0f : 0.0f); });
  });
}

constexpr Op kRandomOps[] = {
    {"RandomUniform", 1, kAnyType, of_shape<uniform>},
    {"RandomNormal", 1, kAnyType, of_shape<normal>},
    {"RandomUniformLike", 1, kAnyType, like<uniform>},
    {"RandomNormalLike", 1, kAnyType, like<normal>},
    {"Bernoulli", 15, kReals, bernoulli},
    {"Multinomial", 7, kReals, multinomial},
    {"Dropout", 1, kReals | kLowPrecision, dropout},
};

}  // namespace

std::span<const Op> random_ops() { return kRandomOps; }

}  // namespace sluice::engine
