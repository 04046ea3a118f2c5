#include "broker/ledger/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/units.h"

namespace sluice::broker {

namespace {

// A card as people know it.
std::string label(const Card& card) { return fmt::format("{} ({})", card.name, card.bus); }

bool is_linked(const Card& a, const Card& b) {
  const auto names = [](const Card& from, const Card& to) {
    return std::ranges::find(from.linked_to, to.uuid) != from.linked_to.end();
  };
  return names(a, b) || names(b, a);
}

// Candidates that can give `bytes`, the preferred ones first.
std::vector<std::size_t> ranked(const LeaseRequest& request,
                                std::span<const CandidateCard> candidates, std::uint64_t bytes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (may_use(request, *candidates[i].card) && candidates[i].available() >= bytes)
      order.push_back(i);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto &one = *candidates[a].card, &other = *candidates[b].card;
    if (request.numa_node) {
      const bool near = one.numa_node == request.numa_node;
      if (near != (other.numa_node == request.numa_node)) return near;
    }
    if (candidates[a].available() != candidates[b].available())
      return (candidates[a].available() < candidates[b].available()) ==
             (request.placement == PlacementPolicy::best_fit);
    return one.bus < other.bus;
  });
  return order;
}

// The first `count` of `order` that all reach each other, those in front preferred; empty when
// there are none. Tries all, which are few; on a machine with very many it gives up in time.
class LinkedSet {
 public:
  LinkedSet(std::span<const CandidateCard> candidates, const std::vector<std::size_t>& order,
            std::size_t count)
      : candidates_(candidates), order_(order), count_(count) {}
  std::vector<std::size_t> find() { return extend(0) ? chosen_ : std::vector<std::size_t>{}; }

 private:
  bool extend(std::size_t from) {
    if (chosen_.size() == count_) return true;
    for (auto i = from; i + (count_ - chosen_.size()) <= order_.size() && steps_ < kSteps; ++i) {
      ++steps_;
      const bool reaches_all = std::ranges::all_of(chosen_, [&](std::size_t other) {
        return is_linked(*candidates_[order_[i]].card, *candidates_[other].card);
      });
      if (!reaches_all) continue;
      chosen_.push_back(order_[i]);
      if (extend(i + 1)) return true;
      chosen_.pop_back();
    }
    return false;
  }

  static constexpr std::size_t kSteps = 20'000;
  std::span<const CandidateCard> candidates_;
  const std::vector<std::size_t>& order_;
  std::size_t count_, steps_ = 0;
  std::vector<std::size_t> chosen_;
};

// The bytes that `gpus` candidates can each give at once, at most what is requested.
std::uint64_t size_to_give(const LeaseRequest& request, std::span<const CandidateCard> candidates) {
  std::uint64_t best = 0;
  if (request.gpus == 1) {
    for (const auto& candidate : candidates)
      if (may_use(request, *candidate.card)) best = std::max(best, candidate.available());
    return std::min(best, request.bytes);
  }
  std::vector<std::uint64_t> free;
  for (const auto& candidate : candidates)
    if (may_use(request, *candidate.card)) free.push_back(candidate.available());
  if (free.size() < request.gpus) return 0;
  const auto nth = free.begin() + (request.gpus - 1);
  std::nth_element(free.begin(), nth, free.end(), std::greater<>());
  return std::min(*nth, request.bytes);
}

std::string why_here(const LeaseRequest& request, std::span<const CandidateCard> candidates,
                     const Choice& choice) {
  std::string names, left;
  for (const auto i : choice.candidates) {
    names += (names.empty() ? "" : " and ") + label(*candidates[i].card);
    left += (left.empty() ? "" : " and ") + human_bytes(candidates[i].available() - choice.bytes);
  }
  std::string out = fmt::format(
      "{} on {}: {} stay free",
      request.placement == PlacementPolicy::spread ? "most free memory" : "best fit", names, left);
  if (choice.bytes < request.bytes)
    out += fmt::format("; {} of the {} requested", human_bytes(choice.bytes),
                       human_bytes(request.bytes));
  if (request.gpus > 1 && request.linked)
    out += choice.linked ? "; linked by NVLink" : "; no such set is linked by NVLink";
  return out;
}

std::string shortage_on(const CandidateCard& candidate) {
  if (!candidate.capacity.why.empty())
    return fmt::format("{}: {}", label(*candidate.card), candidate.capacity.why);
  auto text =
      fmt::format("{} has {} free", label(*candidate.card), human_bytes(candidate.capacity.free));
  if (candidate.held_back > 0)
    text += fmt::format(", {} of it kept for others",
                        human_bytes(std::min(candidate.held_back, candidate.capacity.free)));
  return text;
}

// Unusable cards come last.
bool is_better(const CandidateCard& a, const CandidateCard& b) {
  if (a.capacity.why.empty() != b.capacity.why.empty()) return a.capacity.why.empty();
  return a.available() > b.available();
}

// Names the card where the least is missing and counts the others, so that the reason stays one
// sentence on a machine with many cards.
std::string why_not(const LeaseRequest& request, std::span<const CandidateCard> candidates) {
  const auto min_bytes = min_bytes_per_gpu(request);
  auto out = request.gpus == 1 ? fmt::format("{} requested", human_bytes(min_bytes))
                               : fmt::format("{} on each of {} GPUs requested",
                                             human_bytes(min_bytes), request.gpus);
  const CandidateCard* best = nullptr;
  std::size_t enough = 0, less = 0, closed = 0;
  for (const auto& candidate : candidates) {
    if (!may_use(request, *candidate.card)) continue;
    const bool is_closed = !candidate.capacity.why.empty();
    if (!is_closed && candidate.available() >= min_bytes) {
      ++enough;
      continue;
    }
    ++(is_closed ? closed : less);
    if (best == nullptr || is_better(candidate, *best)) best = &candidate;
  }
  if (enough > 0) out += fmt::format(", and {} {} it", enough, enough == 1 ? "has" : "have");
  if (best == nullptr && enough == 0)
    return out + (request.device.empty()
                      ? "; no GPU has been seen yet"
                      : fmt::format("; GPU {} has not been seen yet", request.device));
  if (best == nullptr) return out;
  --(best->capacity.why.empty() ? less : closed);
  out += "; " + shortage_on(*best);
  if (less > 0) out += fmt::format(", {} other{} no more", less, less == 1 ? " has" : "s have");
  if (closed > 0) out += fmt::format(", {} other{} cannot be used", closed, closed == 1 ? "" : "s");
  return out;
}

}  // namespace

std::uint64_t min_bytes_per_gpu(const LeaseRequest& request) noexcept {
  return request.min_bytes > 0 ? request.min_bytes : request.bytes;
}

bool may_use(const LeaseRequest& request, const Card& card) noexcept {
  const auto& device = request.device;
  return device.empty() || device == card.uuid || device == card.bus || device == card.index ||
         (card.all_listed && device.starts_with("GPU-") && card.uuid.starts_with(device));
}

Choice choose(const LeaseRequest& request, std::span<const CandidateCard> candidates) {
  Choice out;
  out.bytes = size_to_give(request, candidates);
  if (out.bytes < min_bytes_per_gpu(request)) return {};
  auto order = ranked(request, candidates, out.bytes);
  if (request.gpus > 1 && request.linked) {
    out.candidates = LinkedSet(candidates, order, request.gpus).find();
    out.linked = !out.candidates.empty();
    if (out.linked) return out;
  }
  order.resize(request.gpus);
  out.candidates = std::move(order);
  return out;
}

std::vector<Obstacle> obstacles(const LeaseRequest& request,
                                std::span<const CandidateCard> candidates) {
  std::vector<Obstacle> all;
  for (const auto& candidate : candidates) {
    const auto& card = *candidate.card;
    if (!may_use(request, card)) continue;
    if (candidate.capacity.why.empty() && candidate.available() >= min_bytes_per_gpu(request))
      continue;
    all.push_back({card.uuid, card.bus, card.name, candidate.capacity.free,
                   std::min(candidate.held_back, candidate.capacity.free), candidate.capacity.why});
  }
  return all;
}

std::string explain(const LeaseRequest& request, std::span<const CandidateCard> candidates,
                    const Choice& choice) {
  return choice.candidates.empty() ? why_not(request, candidates)
                                   : why_here(request, candidates, choice);
}

std::string never_fits(const LeaseRequest& request, std::span<const Card* const> cards) {
  std::size_t enough = 0;
  const Card *largest = nullptr, *named = nullptr;
  const auto min_bytes = min_bytes_per_gpu(request);
  for (const auto* card : cards) {
    if (!may_use(request, *card)) continue;
    named = card;
    if (card->excluded) continue;
    if (largest == nullptr || card->total > largest->total) largest = card;
    if (card->total >= min_bytes) ++enough;
  }
  if (enough >= request.gpus) return {};
  if (cards.empty()) return "there is no GPU on this machine";
  if (named == nullptr) return fmt::format("no GPU here is named {}", request.device);
  if (largest == nullptr)
    return request.device.empty() ? "no GPU of this machine is chosen for work"
                                  : fmt::format("{} is not chosen for work", label(*named));
  if (enough == 0)
    return fmt::format("{} requested, but {} has {} in all, and it is the largest",
                       human_bytes(min_bytes), label(*largest), human_bytes(largest->total));
  return fmt::format("{} on each of {} GPUs requested, but only {} here {} that much",
                     human_bytes(min_bytes), request.gpus, enough, enough == 1 ? "has" : "have");
}

}  // namespace sluice::broker
