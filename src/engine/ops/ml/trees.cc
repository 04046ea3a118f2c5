// Tree ensembles: one representation for the three operators.
#include <cmath>
#include <map>
#include <set>

#include "engine/ops/families.h"
#include "engine/ops/ml/scores.h"

namespace sluice::engine {
namespace {

enum class Mode { leq, lt, gte, gt, eq, neq, member, leaf };
enum class Aggregate { average, sum, min, max };

struct TreeNode {
  Mode mode = Mode::leaf;
  std::int64_t feature = 0;
  double split = 0;
  bool missing_is_true = false;
  std::size_t yes = 0, no = 0;
  std::set<double> members{};
  std::vector<std::pair<std::size_t, double>> weights{};  // for leaves: targets and weights

  bool holds(double x) const {
    if (std::isnan(x) && missing_is_true) return true;
    switch (mode) {
      case Mode::leq: return x <= split;
      case Mode::lt: return x < split;
      case Mode::gte: return x >= split;
      case Mode::gt: return x > split;
      case Mode::eq: return x == split;
      case Mode::neq: return x != split;
      case Mode::member: return !std::isnan(x) && members.contains(x);
      case Mode::leaf: break;
    }
    return false;
  }
};

struct Forest {
  std::vector<TreeNode> nodes{};
  std::vector<std::size_t> roots{};
  std::vector<double> base{};  // base value per target
  std::size_t targets = 1;
  Aggregate aggregate = Aggregate::sum;

  const TreeNode& leaf_of(std::size_t root, std::span<const double> row) const {
    std::size_t at = root;
    for (std::size_t steps = 0; steps <= nodes.size(); ++steps) {
      const TreeNode& node = nodes[at];
      if (node.mode == Mode::leaf) return node;
      require(node.feature >= 0 && node.feature < static_cast<std::int64_t>(row.size()),
              "a tree asks for feature " + std::to_string(node.feature));
      at = node.holds(row[static_cast<std::size_t>(node.feature)]) ? node.yes : node.no;
    }
    throw Error(Code::invalid_argument, "a tree that goes round in a circle");
  }

  std::vector<double> run(std::span<const double> row) const {
    std::vector<double> sums(targets, 0);
    std::vector<bool> touched(targets, false);
    for (const std::size_t root : roots)
      for (const auto& [target, weight] : leaf_of(root, row).weights) {
        double& sum = sums[target];
        if (aggregate == Aggregate::min)
          sum = touched[target] ? std::min(sum, weight) : weight;
        else if (aggregate == Aggregate::max)
          sum = touched[target] ? std::max(sum, weight) : weight;
        else
          sum += weight;
        touched[target] = true;
      }
    for (std::size_t i = 0; i < targets; ++i) {
      if (aggregate == Aggregate::average) sums[i] /= static_cast<double>(roots.size());
      if (base.size() == targets) sums[i] += base[i];
    }
    return sums;
  }
};

std::vector<double> doubles(const Tensor& tensor) {
  std::vector<double> list;
  visit_numbers(tensor.dtype(), [&]<class T>() {
    for (const T& value : tensor.values<T>())
      list.push_back(static_cast<double>(static_cast<Wide<T>>(value)));
  });
  return list;
}

// A float list or, from version 3, a tensor attribute.
std::vector<double> real_list(const Attributes& a, const std::string& name) {
  if (const Tensor tensor = a.tensor(name + "_as_tensor")) return doubles(tensor);
  const auto list = a.reals(name);
  return {list.begin(), list.end()};
}

Mode mode_named(const std::string& name) {
  constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (int i = 0; i < 8; ++i)
    if (kNames[i] == name && i != 6) return static_cast<Mode>(i);
  throw Error(Code::invalid_argument, "no kind of node '" + name + "'");
}

std::size_t checked(std::int64_t index, std::size_t count, std::string_view what) {
  require(index >= 0 && static_cast<std::uint64_t>(index) < count,
          std::string(what) + " " + std::to_string(index) + " of " + std::to_string(count));
  return static_cast<std::size_t>(index);
}

Aggregate aggregate_named(const std::string& name) {
  if (name == "AVERAGE") return Aggregate::average;
  if (name == "MIN") return Aggregate::min;
  if (name == "MAX") return Aggregate::max;
  require(name == "SUM", "no aggregate_function " + name);
  return Aggregate::sum;
}

// The older format: nodes by tree id and node id; the first node of a tree is its root.
class OldForest {
 public:
  explicit OldForest(const Attributes& a) {
    const auto trees = a.integers("nodes_treeids"), ids = a.integers("nodes_nodeids");
    const auto features = a.integers("nodes_featureids");
    const auto yes = a.integers("nodes_truenodeids"), no = a.integers("nodes_falsenodeids");
    const auto missing = a.integers("nodes_missing_value_tracks_true");
    const auto modes = a.strings("nodes_modes");
    const auto splits = real_list(a, "nodes_values");
    const std::size_t count = trees.size();
    for (const std::size_t size :
         {ids.size(), features.size(), yes.size(), no.size(), modes.size(), splits.size()})
      require(size == count, "lists of nodes of different lengths");
    require(missing.empty() || missing.size() == count, "lists of nodes of different lengths");
    for (std::size_t i = 0; i < count; ++i)
      require(positions_.emplace(std::pair(trees[i], ids[i]), i).second,
              "node " + std::to_string(ids[i]) + " comes twice in a tree");
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < count; ++i) {
      if (seen.insert(trees[i]).second) forest_.roots.push_back(i);
      TreeNode node{.mode = mode_named(modes[i]), .feature = features[i], .split = splits[i]};
      node.missing_is_true = !missing.empty() && missing[i] != 0;
      if (node.mode != Mode::leaf) {
        node.yes = place(trees[i], yes[i]);
        node.no = place(trees[i], no[i]);
      }
      forest_.nodes.push_back(std::move(node));
    }
  }

  // Reads leaf weights from the lists with `prefix`.
  void weights(const Attributes& a, const std::string& prefix, std::size_t targets) {
    const auto trees = a.integers(prefix + "_treeids"), ids = a.integers(prefix + "_nodeids");
    const auto classes = a.integers(prefix + "_ids");
    const auto values = real_list(a, prefix + "_weights");
    require(
        trees.size() == ids.size() && classes.size() == ids.size() && values.size() == ids.size(),
        "lists of leaves of different lengths");
    forest_.targets = targets;
    for (std::size_t i = 0; i < ids.size(); ++i)
      forest_.nodes[place(trees[i], ids[i])].weights.emplace_back(
          checked(classes[i], targets, "target"), values[i]);
    forest_.base = real_list(a, "base_values");
    require(forest_.base.empty() || forest_.base.size() == targets || forest_.base.size() == 1,
            "base_values do not fit");
  }

  Forest take() { return std::move(forest_); }

 private:
  std::size_t place(std::int64_t tree, std::int64_t id) const {
    const auto found = positions_.find({tree, id});
    require(found != positions_.end(), "a tree without its node " + std::to_string(id));
    return found->second;
  }

  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> positions_;
  Forest forest_;
};

struct DoubleRows {
  std::int64_t count, width;
  std::vector<double> values;

  explicit DoubleRows(const Tensor& tensor) {
    require(tensor.rank() == 1 || tensor.rank() == 2,
            "a row or rows of numbers, not " + to_string(tensor.shape()));
    count = tensor.rank() == 2 ? tensor.shape()[0] : 1;
    width = tensor.shape()[tensor.rank() - 1];
    require(width > 0 || count == 0, "rows without columns");
    values = doubles(tensor);
  }
  std::span<const double> row(std::int64_t i) const {
    return {values.data() + i * width, static_cast<std::size_t>(width)};
  }
};

// The output rows in the requested type.
void write_scores(OpCall& call, const Forest& forest, DType dtype) {
  const DoubleRows rows(call.input(0));
  const PostTransform how = post_transform_of(call.attributes());
  const auto width = static_cast<std::int64_t>(forest.targets);
  const Tensor out = call.output(0, dtype, {rows.count, width});
  call.workers.each(
      static_cast<std::size_t>(rows.count), 16, [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i) {
          std::vector<double> sums = forest.run(rows.row(static_cast<std::int64_t>(i)));
          if (how != PostTransform::none) {
            std::vector<float> scores(sums.begin(), sums.end());
            transform_scores(how, scores);
            sums.assign(scores.begin(), scores.end());
          }
          visit_reals(dtype, [&]<class T>() {
            for (std::size_t k = 0; k < sums.size(); ++k)
              out.values<T>()[i * forest.targets + k] =
                  static_cast<T>(static_cast<Wide<T>>(sums[k]));
          });
        }
      });
}

void regressor(OpCall& call) {
  const Attributes& a = call.attributes();
  const std::int64_t targets = a.integer("n_targets", 1);
  require(targets > 0 && targets < (1 << 20), std::to_string(targets) + " targets");
  OldForest old(a);
  old.weights(a, "target", static_cast<std::size_t>(targets));
  Forest forest = old.take();
  forest.aggregate = aggregate_named(a.string("aggregate_function", "SUM"));
  write_scores(call, forest, DType::f32);
}

// A single score is that of the second of two classes: a probability if all leaf weights are
// positive, otherwise a margin around 0.
struct LoneScore {
  bool positive = true;

  std::size_t chosen(float score) const { return score > (positive ? 0.5f : 0.0f) ? 1 : 0; }
  std::vector<float> both(float score, PostTransform how) const {
    std::vector<float> scores{positive && how != PostTransform::logistic ? 1 - score : -score,
                              score};
    transform_scores(how, scores);
    return scores;
  }
};

void classifier(OpCall& call) {
  const Attributes& a = call.attributes();
  const Labels labels(a, "classlabels_int64s", "classlabels_strings");
  const std::size_t classes = labels.size();
  require(classes > 0, "no labels");
  OldForest old(a);
  old.weights(a, "class", classes);
  const Forest forest = old.take();
  const PostTransform how = post_transform_of(a);
  const auto ids = a.integers("class_ids");
  const std::set<std::int64_t> voted(ids.begin(), ids.end());
  const bool lone = classes == 2 && voted.size() == 1;
  LoneScore two;
  for (const double weight : real_list(a, "class_weights")) two.positive &= weight >= 0;
  const DoubleRows rows(call.input(0));
  const Tensor chosen = labels.output(call, rows.count);
  const Shape shape{rows.count, static_cast<std::int64_t>(classes)};
  float* to = call.output(1, DType::f32, shape).values<float>().data();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::vector<double> sums = forest.run(rows.row(i));
    std::vector<float> scores(sums.begin(), sums.end());
    if (lone) {
      float score = scores[static_cast<std::size_t>(*voted.begin())];
      if (forest.base.size() == 1) score += static_cast<float>(forest.base[0]);
      labels.write(chosen, i, two.chosen(score));
      scores = two.both(score, how);
    } else {
      labels.write(chosen, i, argmax(scores));
      transform_scores(how, scores);
    }
    to = std::copy(scores.begin(), scores.end(), to);
  }
}

// Member sets are concatenated, each terminated by NaN.
void set_members(std::vector<TreeNode>& nodes, const Tensor& values) {
  const std::vector<double> list = values ? doubles(values) : std::vector<double>{};
  std::size_t at = 0;
  for (TreeNode& node : nodes) {
    if (node.mode != Mode::member) continue;
    require(at < list.size(), "a node without its set of members");
    for (; at < list.size() && !std::isnan(list[at]); ++at) node.members.insert(list[at]);
    ++at;
  }
}

// The leaves of the newer format come behind its nodes.
void add_leaves(const Attributes& a, Forest& forest) {
  const auto targets = a.integers("leaf_targetids");
  const std::vector<double> weights = doubles(a.tensor("leaf_weights"));
  require(targets.size() == weights.size(), "lists of leaves of different lengths");
  for (std::size_t i = 0; i < weights.size(); ++i)
    forest.nodes.push_back(
        {.weights = {{checked(targets[i], forest.targets, "target"), weights[i]}}});
}

// The newer format (TreeEnsemble): nodes and leaves by index.
Forest new_forest(const Attributes& a) {
  const auto features = a.integers("nodes_featureids");
  const auto yes = a.integers("nodes_truenodeids"), no = a.integers("nodes_falsenodeids");
  const auto yes_leaf = a.integers("nodes_trueleafs"), no_leaf = a.integers("nodes_falseleafs");
  const auto missing = a.integers("nodes_missing_value_tracks_true");
  const std::vector<double> splits = doubles(a.tensor("nodes_splits"));
  const std::vector<double> modes = doubles(a.tensor("nodes_modes"));
  const std::size_t count = features.size(), leaves = a.integers("leaf_targetids").size();
  for (const std::size_t size :
       {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), splits.size(), modes.size(),
        missing.empty() ? count : missing.size()})
    require(size == count, "lists of nodes of different lengths");
  Forest forest;
  const std::int64_t width = a.integer("n_targets", 1);
  require(width > 0 && width < (1 << 20), std::to_string(width) + " targets");
  forest.targets = static_cast<std::size_t>(width);
  const auto goes_to = [&](std::int64_t index, std::int64_t is_leaf) {
    if (is_leaf == 0) return checked(index, count, "node");
    return count + checked(index, leaves, "leaf");
  };
  for (std::size_t i = 0; i < count; ++i) {
    require(modes[i] >= 0 && modes[i] <= 6, "no kind of node " + std::to_string(modes[i]));
    TreeNode node{.mode = static_cast<Mode>(static_cast<int>(modes[i])),
                  .feature = features[i],
                  .split = splits[i]};
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    node.yes = goes_to(yes[i], yes_leaf[i]);
    node.no = goes_to(no[i], no_leaf[i]);
    forest.nodes.push_back(std::move(node));
  }
  set_members(forest.nodes, a.tensor("membership_values"));
  add_leaves(a, forest);
  for (const std::int64_t root : a.integers("tree_roots"))
    forest.roots.push_back(checked(root, count, "root"));
  return forest;
}

void tree_ensemble(OpCall& call) {
  Forest forest = new_forest(call.attributes());
  const std::int64_t aggregate = call.attributes().integer("aggregate_function", 1);
  require(aggregate >= 0 && aggregate < 4, "no aggregate_function " + std::to_string(aggregate));
  forest.aggregate = static_cast<Aggregate>(aggregate);
  write_scores(call, forest, call.input(0).dtype());
}

constexpr Op kTreeOps[] = {
    {"TreeEnsembleRegressor", 1, kScoreTypes, regressor, kMlDomain},
    {"TreeEnsembleClassifier", 1, kScoreTypes, classifier, kMlDomain},
    {"TreeEnsemble", 5, {DType::f32, DType::f64, DType::f16}, tree_ensemble, kMlDomain},
};

}  // namespace

std::span<const Op> tree_ops() { return kTreeOps; }

}  // namespace sluice::engine
