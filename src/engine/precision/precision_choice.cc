#include "engine/precision/precision_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "engine/shapes/flops.h"

namespace sluice::engine {
namespace {

constexpr double kMaxFlops = 3e11;  // of the search, for each sample
constexpr double kMaxSeconds = 2;
constexpr double kAccepted = 0.8;                // share of the allowed loss that needs no search
constexpr double kAmplifying = 2, kCareful = 5;  // multiples of the allowed loss
constexpr int kRounds = 3;
constexpr std::size_t kNamed = 3;

class Chooser {
 public:
  Chooser(Emulation& run, double max_loss)
      : run_(run), graph_(run.graph()), max_loss_(max_loss), begin_(Steady::now()) {}

  PrecisionChoice choose(const PrecisionChoice& before) {
    PrecisionChoice choice{.narrow = before.narrow, .wide = before.wide};
    why_.resize(choice.narrow.size());
    choice.loss = run_.loss_without_overflow(choice.narrow);
    for (std::size_t i = 0; i < why_.size(); ++i)
      if (run_.ranges()[i].overflows)
        why_[i] = fmt::format(
            "{} where f32 makes up to {:.3g}",
            run_.ranges()[i].infinite ? "is infinite or NaN" : "is too close to the largest number",
            run_.ranges()[i].max_magnitude);
    if (!(choice.loss <= kAccepted * max_loss_)) settle(choice);
    for (std::size_t i = 0; i < why_.size(); ++i)
      if (before.narrow[i] && !choice.narrow[i]) choice.wide.push_back(described(i));
    return choice;
  }

 private:
  // Independent errors add in quadrature, so a share of the nodes may lose the square root of that
  // share. If errors are correlated, less is allowed.
  void settle(PrecisionChoice& choice) {
    const bool grows = !(choice.loss <= kAmplifying * max_loss_);
    goal_ = max_loss_ / (grows ? kCareful : 2);
    for (std::size_t i = 0; i < choice.narrow.size(); ++i)
      if (choice.narrow[i]) nodes_.push_back(i);
    double allowed = goal_;
    for (int round = 0; round < kRounds; ++round, allowed /= 2) {
      narrow_.assign(choice.narrow.size(), false);
      split(0, nodes_.size(), allowed);
      if (grows) widen_makers();
      widen_moves();
      choice.loss = run_.loss(narrow_);
      if (choice.loss <= goal_ || is_over()) break;
    }
    if (!(choice.loss <= goal_)) {
      narrow_.assign(choice.narrow.size(), false);
      choice.loss = 0;
    }
    choice.narrow = narrow_;
  }

  bool is_over() const {
    return run_.spent() > kMaxFlops || seconds_between(begin_, Steady::now()) > kMaxSeconds;
  }

  double alone(std::size_t begin, std::size_t end) {
    const auto [known, is_new] = alone_.try_emplace({begin, end}, 0.0);
    if (!is_new) return known->second;
    std::vector<bool> these(narrow_.size());
    for (std::size_t i = begin; i < end; ++i) these[nodes_[i]] = true;
    return known->second = run_.loss(these);
  }

  void split(std::size_t begin, std::size_t end, double allowed) {
    if (begin == end) return;
    const double share = static_cast<double>(end - begin) / static_cast<double>(nodes_.size());
    if (is_over()) {
      for (std::size_t i = begin; i < end; ++i)
        if (why_[nodes_[i]].empty()) why_[nodes_[i]] = "was not decided in time";
      return;
    }
    const double loss = alone(begin, end);
    if (loss <= allowed * std::sqrt(share)) {
      for (std::size_t i = begin; i < end; ++i) narrow_[nodes_[i]] = true;
      return;
    }
    if (end - begin == 1) {
      why_[nodes_[begin]] = fmt::format("loses {:.2g} of the largest output", loss);
      return;
    }
    const std::size_t middle = (begin + end) / 2;
    split(begin, middle, allowed);
    split(middle, end, allowed);
  }

  // If errors grow, rounding a node's inputs is as bad as rounding its outputs: all ancestors of a
  // node that loses too much stay in f32, whether the samples showed it or not.
  void widen_makers() {
    std::vector<bool> lost(narrow_.size()), is_read(graph_.values.size());
    for (const std::size_t i : nodes_) lost[i] = !narrow_[i];
    const auto is_needed = [&](ValueId id) {
      return id != kNoValue && is_read[static_cast<std::size_t>(id)];
    };
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const bool leads = std::ranges::any_of(node.outputs, is_needed);
      if (!lost[i] && !leads) continue;
      if (narrow_[i]) why_[i] = "leads to a node that loses too much";
      narrow_[i] = false;
      for (const ValueId id : node.inputs)
        if (id != kNoValue) is_read[static_cast<std::size_t>(id)] = true;
    }
  }

  // A data movement node that reads a wide node's output stays wide, which saves a cast.
  void widen_moves() {
    std::vector<bool> is_wide(graph_.values.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (narrow_[i] && flops(graph_, node) == 0 && !node.inputs.empty() &&
          node.inputs[0] != kNoValue && is_wide[static_cast<std::size_t>(node.inputs[0])]) {
        narrow_[i] = false;
        why_[i] = "moves what a node in f32 made";
      }
      if (!narrow_[i] && run_.candidates()[i])
        for (const ValueId id : node.outputs)
          if (id != kNoValue) is_wide[static_cast<std::size_t>(id)] = true;
    }
  }

  WideNode described(std::size_t i) const {
    const Node& node = graph_.nodes[i];
    const std::string value = node.outputs.empty() || node.outputs[0] == kNoValue
                                  ? std::string()
                                  : graph_[node.outputs[0]].name;
    return {value, describe(node), why_[i].empty() ? "others lose too much with it" : why_[i]};
  }

  Emulation& run_;
  const Graph& graph_;
  const double max_loss_;
  double goal_ = 0;
  const Instant begin_;
  std::vector<std::string> why_;    // by node
  std::vector<std::size_t> nodes_;  // to be decided
  std::vector<bool> narrow_;        // by node
  std::map<std::pair<std::size_t, std::size_t>, double> alone_;
};

}  // namespace

PrecisionChoice choose_precision(Emulation& run, double max_loss) {
  return choose_precision(run, max_loss, {.narrow = run.candidates()});
}

PrecisionChoice choose_precision(Emulation& run, double max_loss, const PrecisionChoice& before) {
  return Chooser(run, max_loss).choose(before);
}

std::string worst_nodes(Emulation& run, const std::vector<bool>& narrow) {
  std::vector<std::pair<double, std::size_t>> losses;
  for (std::size_t i = 0; i < narrow.size(); ++i)
    if (narrow[i]) losses.emplace_back(run.own_loss(i), i);
  std::ranges::sort(losses, std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < std::min(losses.size(), kNamed); ++i)
    text += fmt::format("{}{} ({:.2g})", text.empty() ? "" : ", ",
                        describe(run.graph().nodes[losses[i].second]), losses[i].first);
  return text;
}

}  // namespace sluice::engine
