// Support vector machines.
#include <cmath>
#include <optional>

#include "engine/ops/families.h"
#include "engine/ops/ml/scores.h"

namespace sluice::engine {
namespace {

struct KernelFunction {
  std::string type;
  double gamma = 0, coef0 = 0, degree = 0;

  explicit KernelFunction(const Attributes& a) : type(a.string("kernel_type", "LINEAR")) {
    require(type == "LINEAR" || type == "POLY" || type == "RBF" || type == "SIGMOID",
            "no kernel " + type);
    const auto params = a.reals("kernel_params");
    require(params.empty() || params.size() == 3, "kernel_params are three numbers");
    if (params.empty()) return;
    gamma = static_cast<double>(params[0]);
    coef0 = static_cast<double>(params[1]);
    degree = static_cast<double>(params[2]);
  }

  double operator()(const float* a, const float* b, std::int64_t width) const {
    if (type == "RBF") {
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double apart = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += apart * apart;
      }
      return std::exp(-gamma * sum);
    }
    const double product = double_dot(a, b, width);
    if (type == "POLY") return std::pow(gamma * product + coef0, degree);
    return type == "SIGMOID" ? std::tanh(gamma * product + coef0) : product;
  }
};

void svm_regressor(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const Attributes& a = call.attributes();
  const KernelFunction kernel(a);
  const auto vectors = a.reals("support_vectors"), coefficients = a.reals("coefficients");
  const auto rho = a.reals("rho");
  const std::int64_t supports = a.integer("n_supports", 0);
  const std::int64_t used = std::max<std::int64_t>(supports, 1);
  const auto& list = supports > 0 ? vectors : coefficients;
  require(rho.size() == 1 && supports >= 0 && supports < (1 << 30) &&
              static_cast<std::int64_t>(list.size()) == used * rows.width &&
              (supports == 0 || static_cast<std::int64_t>(coefficients.size()) == supports),
          "support vectors and coefficients do not fit the data");
  const auto out = call.output(0, DType::f32, {rows.count, 1}).values<float>();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    auto sum = static_cast<double>(rho[0]);
    for (std::int64_t k = 0; k < used; ++k) {
      const double value = kernel(rows.row(i), list.data() + k * rows.width, rows.width);
      const auto weight =
          supports > 0 ? static_cast<double>(coefficients[static_cast<std::size_t>(k)]) : 1.0;
      sum += weight * value;
    }
    auto score = static_cast<float>(sum);
    if (a.flag("one_class")) score = score > 0 ? 1.0f : -1.0f;
    transform_scores(post_transform_of(a), {&score, 1});
    out[static_cast<std::size_t>(i)] = score;
  }
}

// Class probabilities from pairwise probabilities by iterative pairwise coupling (Wu, Lin and Weng,
// 2004).
std::vector<float> coupled(const std::vector<std::vector<double>>& against) {
  const std::size_t n = against.size();
  std::vector<std::vector<double>> q(n, std::vector<double>(n, 0));
  std::vector<double> p(n, 1 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      q[i][i] += against[j][i] * against[j][i];
      q[i][j] = -against[j][i] * against[i][j];
    }
  for (std::size_t iteration = 0; iteration < std::max<std::size_t>(100, n); ++iteration) {
    std::vector<double> qp(n, 0);
    double pqp = 0, error = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) qp[i] += q[i][j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (std::size_t i = 0; i < n; ++i) error = std::max(error, std::abs(qp[i] - pqp));
    if (error < 0.005 / static_cast<double>(n)) break;
    for (std::size_t i = 0; i < n; ++i) {
      const double change = (pqp - qp[i]) / q[i][i];
      p[i] += change;
      pqp = (pqp + change * (change * q[i][i] + 2 * qp[i])) / ((1 + change) * (1 + change));
      for (std::size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + change * q[i][j]) / (1 + change);
        p[j] /= 1 + change;
      }
    }
  }
  return {p.begin(), p.end()};
}

// A one-vs-one classifier.
class EachAgainstEach {
 public:
  EachAgainstEach(const Attributes& a, std::int64_t width)
      : kernel_(a),
        vectors_(a.reals("support_vectors")),
        coefficients_(a.reals("coefficients")),
        rho_(a.reals("rho")),
        a_(a.reals("prob_a")),
        b_(a.reals("prob_b")),
        width_(width) {
    for (const std::int64_t count : a.integers("vectors_per_class")) {
      require(count >= 0 && count < (1 << 30), "a class of " + std::to_string(count) + " vectors");
      begins_.push_back(begins_.back() + static_cast<std::size_t>(count));
    }
    const std::size_t pairs = classes() * (classes() - 1) / 2, total = begins_.back();
    require(classes() >= 2 && vectors_.size() == total * static_cast<std::size_t>(width) &&
                coefficients_.size() == total * (classes() - 1) && rho_.size() == pairs &&
                a_.size() == b_.size() && (a_.empty() || a_.size() == pairs),
            "support vectors and coefficients do not fit classes and data");
  }

  bool probable() const { return !a_.empty(); }
  std::size_t classes() const { return begins_.size() - 1; }

  // Class probabilities, or votes.
  std::vector<float> scores(const float* row) const {
    std::vector<double> kernels;
    for (std::size_t i = 0; i < begins_.back(); ++i)
      kernels.push_back(
          kernel_(row, vectors_.data() + i * static_cast<std::size_t>(width_), width_));
    std::vector<float> votes(classes(), 0);
    std::vector<std::vector<double>> chances(classes(), std::vector<double>(classes(), 0));
    std::size_t pair = 0;
    for (std::size_t i = 0; i < classes(); ++i)
      for (std::size_t j = i + 1; j < classes(); ++j, ++pair) {
        const double value =
            part(kernels, i, j) + part(kernels, j, i) + static_cast<double>(rho_[pair]);
        votes[value > 0 ? i : j] += 1;
        if (!probable()) continue;
        const double x = static_cast<double>(a_[pair]) * value + static_cast<double>(b_[pair]);
        chances[i][j] = std::clamp(1 / (1 + std::exp(x)), 1e-7, 1 - 1e-7);
        chances[j][i] = 1 - chances[i][j];
      }
    return probable() ? coupled(chances) : votes;
  }

 private:
  // The decision value of class i against class j.
  double part(const std::vector<double>& kernels, std::size_t i, std::size_t j) const {
    const std::size_t row = j > i ? j - 1 : j;
    double sum = 0;
    for (std::size_t k = begins_[i]; k < begins_[i + 1]; ++k)
      sum += static_cast<double>(coefficients_[row * begins_.back() + k]) * kernels[k];
    return sum;
  }

  KernelFunction kernel_;
  std::vector<float> vectors_, coefficients_, rho_, a_, b_;
  std::int64_t width_;
  std::vector<std::size_t> begins_{0};
};

// Without support vectors: one linear score per class.
std::vector<float> class_scores(const Attributes& a, const float* row, std::int64_t width,
                                std::size_t classes) {
  const KernelFunction kernel(a);
  const auto coefficients = a.reals("coefficients"), rho = a.reals("rho");
  require(coefficients.size() == classes * static_cast<std::size_t>(width) && !rho.empty(),
          "coefficients do not fit classes and data");
  std::vector<float> scores;
  for (std::size_t i = 0; i < classes; ++i)
    scores.push_back(static_cast<float>(
        kernel(row, coefficients.data() + i * static_cast<std::size_t>(width), width) +
        static_cast<double>(rho[0])));
  return scores;
}

void svm_classifier(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const Attributes& a = call.attributes();
  const Labels labels(a, "classlabels_ints", "classlabels_strings");
  std::optional<EachAgainstEach> machine;
  if (!a.integers("vectors_per_class").empty()) machine.emplace(a, rows.width);
  if (machine && !machine->probable() && call.wants(1))
    throw Error(Code::unavailable, "scores of a support vector classifier without probabilities");
  const std::size_t classes = machine ? machine->classes() : labels.size();
  const Tensor chosen = labels.output(call, rows.count);
  const Shape shape{rows.count, static_cast<std::int64_t>(classes)};
  float* to = call.output(1, DType::f32, shape).values<float>().data();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    std::vector<float> scores =
        machine ? machine->scores(rows.row(i)) : class_scores(a, rows.row(i), rows.width, classes);
    labels.write(chosen, i, argmax(scores));
    transform_scores(post_transform_of(a), scores);
    to = std::copy(scores.begin(), scores.end(), to);
  }
}

constexpr Op kSvmOps[] = {
    {"SVMClassifier", 1, kScoreTypes, svm_classifier, kMlDomain},
    {"SVMRegressor", 1, kScoreTypes, svm_regressor, kMlDomain},
};

}  // namespace

std::span<const Op> svm_ops() { return kSvmOps; }

}  // namespace sluice::engine
