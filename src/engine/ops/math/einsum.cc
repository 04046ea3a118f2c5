// Einsum and Det.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "engine/ops/axes.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"
#include "engine/ops/math/matmul.h"

namespace sluice::engine {
namespace {

// The axes of one term of the equation as numbers: letters are 0 to 51, then the axes of "...".
using Names = std::vector<int>;
constexpr int kLetters = 52, kMaxNames = kLetters + kMaxDims;

// A parsed equation such as "ij,jk->ik".
struct Equation {
  std::vector<Names> terms;
  Names result;
  std::array<std::int64_t, kMaxNames> size;  // -1: not used

  Equation(std::string text, const std::vector<Tensor>& inputs) {
    size.fill(-1);
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    const std::string left = text.substr(0, arrow);
    std::size_t from = 0;
    for (const Tensor& input : inputs) {
      require(from <= left.size(), "the equation has fewer terms than there are inputs");
      const std::size_t comma = std::min(left.find(',', from), left.size());
      terms.push_back(names(left.substr(from, comma - from), input.rank()));
      take_sizes(terms.back(), input.shape());
      from = comma + 1;
    }
    require(from == left.size() + 1, "the equation has more terms than there are inputs");
    result = arrow == std::string::npos ? implicit() : names(text.substr(arrow + 2), -1);
    std::array<bool, kMaxNames> seen{};
    for (const int name : result) {
      const auto i = static_cast<std::size_t>(name);
      require(size[i] >= 0 && !seen[i], "the result names an axis twice, or one no input has");
      seen[i] = true;
    }
  }

  std::int64_t of(int name) const { return size[static_cast<std::size_t>(name)]; }
  Shape shape(const Names& list) const {
    Shape dims;
    for (const int name : list) dims.push_back(of(name));
    return dims;
  }

 private:
  int dots = 0;  // the maximum number of axes of "..."

  static int letter(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    require(c >= 'a' && c <= 'z', std::string("'") + c + "' in the equation");
    return c - 'a' + 26;
  }

  // rank -1: the result, whose "..." is the longest among the inputs.
  Names names(const std::string& term, int rank) {
    const std::size_t at = term.find("...");
    const int letters = static_cast<int>(term.size()) - (at == std::string::npos ? 0 : 3);
    const int unnamed = at == std::string::npos ? 0 : rank < 0 ? dots : rank - letters;
    require(unnamed >= 0 && (rank < 0 || letters + unnamed == rank),
            "term '" + term + "' for an input of " + std::to_string(rank) + " axes");
    dots = std::max(dots, unnamed);
    Names list;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (i != at) {
        list.push_back(letter(term[i]));
        continue;
      }
      // Numbered from the last axis, because broadcasting aligns the last axes.
      for (int k = unnamed; k > 0; --k) list.push_back(kMaxNames - k);
      i += 2;
    }
    return list;
  }

  void take_sizes(const Names& list, const Shape& shape) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::int64_t& known = size[static_cast<std::size_t>(list[i])];
      const std::int64_t dim = shape[static_cast<int>(i)];
      require(known < 0 || known == dim || known == 1 || dim == 1,
              "an axis has sizes " + std::to_string(known) + " and " + std::to_string(dim));
      if (known < 0 || known == 1) known = dim;
    }
  }

  // The implicit result: "..." and then the letters used once, in order.
  Names implicit() const {
    Names list;
    for (int k = dots; k > 0; --k) list.push_back(kMaxNames - k);
    std::array<int, kMaxNames> uses{};
    for (const Names& term : terms)
      for (const int name : term) ++uses[static_cast<std::size_t>(name)];
    for (int name = 0; name < kLetters; ++name)
      if (uses[static_cast<std::size_t>(name)] == 1) list.push_back(name);
    return list;
  }
};

// The strides of a tensor with these axes along each axis of `order`.
std::vector<std::int64_t> steps_along(const Names& order, const Names& own, const Shape& shape) {
  std::vector<std::int64_t> strides(order.size(), 0);
  const Strides dense = strides_of(shape);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t k = 0; k < own.size(); ++k)
      if (own[k] == order[i] && shape[static_cast<int>(k)] != 1) strides[i] += dense[k];
  return strides;
}

// Iterates over a shape; at[i] is the offset in input i.
struct Walk {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> strides;  // by input
  std::vector<std::int64_t> index, at;

  Walk(const Equation& equation, const Names& order) : index(order.size(), 0) {
    for (const int name : order) sizes.push_back(equation.of(name));
  }
  void add(std::vector<std::int64_t> own) {
    strides.push_back(std::move(own));
    at.push_back(0);
  }
  void next() {
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      for (std::size_t i = 0; i < at.size(); ++i) at[i] += strides[i][axis];
      if (++index[axis] < sizes[axis]) return;
      for (std::size_t i = 0; i < at.size(); ++i) at[i] -= strides[i][axis] * sizes[axis];
      index[axis] = 0;
    }
  }
};

Tensor arranged(const Equation& equation, const Tensor& from, const Names& own,
                const Names& order) {
  const Tensor to(from.dtype(), equation.shape(order));
  Walk walk(equation, order);
  walk.add(steps_along(order, own, from.shape()));
  visit_wide_numbers(from.dtype(), [&]<class T>() {
    for (T& value : as<T>(to)) {
      value = as<T>(from)[static_cast<std::size_t>(walk.at[0])];
      walk.next();
    }
  });
  return to;
}

bool has(const Names& list, int name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Computes a term of two inputs as a batched GEMM. None if the equation has another form.
std::optional<Tensor> as_matmul(OpCall& call, const Equation& equation,
                                const std::vector<Tensor>& inputs) {
  if (inputs.size() != 2 || inputs[0].size() == 0 || inputs[1].size() == 0) return {};
  const Names &a = equation.terms[0], &b = equation.terms[1];
  Names batch, rows, columns, summed;
  for (int side = 0; side < 2; ++side) {
    const Names &own = side == 0 ? a : b, &other = side == 0 ? b : a;
    const Shape& shape = inputs[static_cast<std::size_t>(side)].shape();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const bool shared = has(other, own[i]), kept = has(equation.result, own[i]);
      if (std::count(own.begin(), own.end(), own[i]) > 1 || (!shared && !kept) ||
          shape[static_cast<int>(i)] != equation.of(own[i]))
        return {};
      Names& list = shared ? kept ? batch : summed : side == 0 ? rows : columns;
      if (!has(list, own[i])) list.push_back(own[i]);
    }
  }
  const auto join = [](Names x, const Names& y, const Names& z) {
    x.insert(x.end(), y.begin(), y.end());
    x.insert(x.end(), z.begin(), z.end());
    return x;
  };
  const auto count = [&](const Names& names) { return equation.shape(names).size(); };
  const std::int64_t z = count(batch), m = count(rows), n = count(columns), k = count(summed);
  const Tensor left = arranged(equation, inputs[0], a, join(batch, rows, summed));
  const Tensor right = arranged(equation, inputs[1], b, join(batch, summed, columns));
  const Tensor gemm_result =
      batched_matmul(call, left.reshaped(Shape{z, m, k}), right.reshaped(Shape{z, k, n}));
  const Names order = join(batch, rows, columns);
  return arranged(equation, gemm_result.reshaped(equation.shape(order)), order, equation.result);
}

Tensor summed_products(const Equation& equation, const std::vector<Tensor>& inputs) {
  Names order = equation.result;
  std::vector<std::int64_t> summed;
  for (int name = 0; name < kMaxNames; ++name)
    if (equation.of(name) >= 0 && !has(equation.result, name)) {
      order.push_back(name);
      summed.push_back(equation.of(name));
    }
  const std::int64_t each = checked_size(summed);
  Walk walk(equation, order);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    walk.add(steps_along(order, equation.terms[i], inputs[i].shape()));
  const Tensor out(inputs[0].dtype(), equation.shape(equation.result));
  visit_wide_numbers(out.dtype(), [&]<class T>() {
    using S = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    for (T& value : as<T>(out)) {
      S sum = 0;
      for (std::int64_t k = 0; k < each; ++k, walk.next()) {
        S product = 1;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          product *= static_cast<S>(as<T>(inputs[i])[static_cast<std::size_t>(walk.at[i])]);
        sum += product;
      }
      value = static_cast<T>(sum);
    }
  });
  return out;
}

void einsum(OpCall& call) {
  std::vector<Tensor> inputs;
  const DType type = call.input(0).dtype();
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    require(call.input(i).dtype() == type, "inputs of different element types");
    inputs.push_back(call.input(i));
  }
  const Equation equation(call.attributes().string("equation", ""), inputs);
  call.declare_output(0, type, equation.shape(equation.result));
  for (Tensor& input : inputs) input = converted(input, wide_number(type));
  const std::optional<Tensor> gemm_result = as_matmul(call, equation, inputs);
  call.set_output(0,
                  converted(gemm_result ? *gemm_result : summed_products(equation, inputs), type));
}

constexpr Op kEinsumOps[] = {
    {"Einsum", 12, kNumbers, einsum},
};

}  // namespace

std::span<const Op> einsum_ops() { return kEinsumOps; }

}  // namespace sluice::engine
