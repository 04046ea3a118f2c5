#include "broker/ledger/place.h"

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

// Sites that can give `bytes`, the preferred ones first.
std::vector<std::size_t> ranked(const Wanted& wanted, std::span<const Site> sites,
                                std::uint64_t bytes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sites.size(); ++i)
    if (may_use(wanted, *sites[i].card) && sites[i].available() >= bytes) order.push_back(i);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto &one = *sites[a].card, &other = *sites[b].card;
    if (wanted.numa_node) {
      const bool near = one.numa_node == wanted.numa_node;
      if (near != (other.numa_node == wanted.numa_node)) return near;
    }
    if (sites[a].available() != sites[b].available())
      return (sites[a].available() < sites[b].available()) == (wanted.spread == Spread::best_fit);
    return one.bus < other.bus;
  });
  return order;
}

// The first `count` of `order` that all reach each other, those in front preferred; empty when
// there are none. Tries all, which are few; on a machine with very many it gives up in time.
class LinkedSet {
 public:
  LinkedSet(std::span<const Site> sites, const std::vector<std::size_t>& order, std::size_t count)
      : sites_(sites), order_(order), count_(count) {}
  std::vector<std::size_t> find() { return extend(0) ? chosen_ : std::vector<std::size_t>{}; }

 private:
  bool extend(std::size_t from) {
    if (chosen_.size() == count_) return true;
    for (auto i = from; i + (count_ - chosen_.size()) <= order_.size() && steps_ < kSteps; ++i) {
      ++steps_;
      const bool reaches_all = std::ranges::all_of(chosen_, [&](std::size_t other) {
        return is_linked(*sites_[order_[i]].card, *sites_[other].card);
      });
      if (!reaches_all) continue;
      chosen_.push_back(order_[i]);
      if (extend(i + 1)) return true;
      chosen_.pop_back();
    }
    return false;
  }

  static constexpr std::size_t kSteps = 20'000;
  std::span<const Site> sites_;
  const std::vector<std::size_t>& order_;
  std::size_t count_, steps_ = 0;
  std::vector<std::size_t> chosen_;
};

// As much as `gpus` sites can give at once, at most what is wanted.
std::uint64_t size_to_give(const Wanted& wanted, std::span<const Site> sites) {
  std::uint64_t best = 0;
  if (wanted.gpus == 1) {
    for (const auto& site : sites)
      if (may_use(wanted, *site.card)) best = std::max(best, site.available());
    return std::min(best, wanted.bytes);
  }
  std::vector<std::uint64_t> free;
  for (const auto& site : sites)
    if (may_use(wanted, *site.card)) free.push_back(site.available());
  if (free.size() < wanted.gpus) return 0;
  const auto nth = free.begin() + (wanted.gpus - 1);
  std::nth_element(free.begin(), nth, free.end(), std::greater<>());
  return std::min(*nth, wanted.bytes);
}

std::string why_here(const Wanted& wanted, std::span<const Site> sites, const Choice& choice) {
  std::string names, left;
  for (const auto i : choice.sites) {
    names += (names.empty() ? "" : " and ") + label(*sites[i].card);
    left += (left.empty() ? "" : " and ") + human_bytes(sites[i].available() - choice.bytes);
  }
  std::string out =
      fmt::format("{} on {}: {} stay free",
                  wanted.spread == Spread::spread ? "most room" : "best fit", names, left);
  if (choice.bytes < wanted.bytes)
    out += fmt::format("; {} of the {} asked for", human_bytes(choice.bytes),
                       human_bytes(wanted.bytes));
  if (wanted.gpus > 1 && wanted.linked)
    out += choice.linked ? "; linked by NVLink" : "; no such set is linked by NVLink";
  return out;
}

std::string in_the_way(const Site& site) {
  if (!site.room.why.empty()) return fmt::format("{}: {}", label(*site.card), site.room.why);
  auto text = fmt::format("{} has {} free", label(*site.card), human_bytes(site.room.free));
  if (site.held_back > 0)
    text += fmt::format(", {} of it kept for others",
                        human_bytes(std::min(site.held_back, site.room.free)));
  return text;
}

// What could carry it on no account comes last.
bool is_better(const Site& a, const Site& b) {
  if (a.room.why.empty() != b.room.why.empty()) return a.room.why.empty();
  return a.available() > b.available();
}

// The card where the least is missing and how many others there are: a sentence stays one on
// a machine with many.
std::string why_not(const Wanted& wanted, std::span<const Site> sites) {
  const auto least = least_bytes(wanted);
  auto out = wanted.gpus == 1
                 ? fmt::format("{} wanted", human_bytes(least))
                 : fmt::format("{} on each of {} GPUs wanted", human_bytes(least), wanted.gpus);
  const Site* best = nullptr;
  std::size_t enough = 0, less = 0, closed = 0;
  for (const auto& site : sites) {
    if (!may_use(wanted, *site.card)) continue;
    const bool is_closed = !site.room.why.empty();
    if (!is_closed && site.available() >= least) {
      ++enough;
      continue;
    }
    ++(is_closed ? closed : less);
    if (best == nullptr || is_better(site, *best)) best = &site;
  }
  if (enough > 0) out += fmt::format(", and {} {} it", enough, enough == 1 ? "has" : "have");
  if (best == nullptr && enough == 0)
    return out + (wanted.device.empty()
                      ? "; no GPU has been seen yet"
                      : fmt::format("; GPU {} has not been seen yet", wanted.device));
  if (best == nullptr) return out;
  --(best->room.why.empty() ? less : closed);
  out += "; " + in_the_way(*best);
  if (less > 0) out += fmt::format(", {} other{} no more", less, less == 1 ? " has" : "s have");
  if (closed > 0) out += fmt::format(", {} other{} cannot be used", closed, closed == 1 ? "" : "s");
  return out;
}

}  // namespace

std::uint64_t least_bytes(const Wanted& wanted) noexcept {
  return wanted.min_bytes > 0 ? wanted.min_bytes : wanted.bytes;
}

bool may_use(const Wanted& wanted, const Card& card) noexcept {
  const auto& device = wanted.device;
  return device.empty() || device == card.uuid || device == card.bus || device == card.index ||
         (card.among_all && device.starts_with("GPU-") && card.uuid.starts_with(device));
}

Choice choose(const Wanted& wanted, std::span<const Site> sites) {
  Choice out;
  out.bytes = size_to_give(wanted, sites);
  if (out.bytes < least_bytes(wanted)) return {};
  auto order = ranked(wanted, sites, out.bytes);
  if (wanted.gpus > 1 && wanted.linked) {
    out.sites = LinkedSet(sites, order, wanted.gpus).find();
    out.linked = !out.sites.empty();
    if (out.linked) return out;
  }
  order.resize(wanted.gpus);
  out.sites = std::move(order);
  return out;
}

std::vector<Obstacle> obstacles(const Wanted& wanted, std::span<const Site> sites) {
  std::vector<Obstacle> all;
  for (const auto& site : sites) {
    const auto& card = *site.card;
    if (!may_use(wanted, card)) continue;
    if (site.room.why.empty() && site.available() >= least_bytes(wanted)) continue;
    all.push_back({card.uuid, card.bus, card.name, site.room.free,
                   std::min(site.held_back, site.room.free), site.room.why});
  }
  return all;
}

std::string explain(const Wanted& wanted, std::span<const Site> sites, const Choice& choice) {
  return choice.sites.empty() ? why_not(wanted, sites) : why_here(wanted, sites, choice);
}

Placement place(const Wanted& wanted, std::span<const Site> sites) {
  const auto choice = choose(wanted, sites);
  Placement out;
  for (const auto i : choice.sites) out.parts.push_back({sites[i].card->uuid, choice.bytes});
  out.reason = explain(wanted, sites, choice);
  return out;
}

std::string never_fits(const Wanted& wanted, std::span<const Card* const> cards) {
  std::size_t enough = 0;
  const Card *largest = nullptr, *named = nullptr;
  const auto least = least_bytes(wanted);
  for (const auto* card : cards) {
    if (!may_use(wanted, *card)) continue;
    named = card;
    if (card->excluded) continue;
    if (largest == nullptr || card->total > largest->total) largest = card;
    if (card->total >= least) ++enough;
  }
  if (enough >= wanted.gpus) return {};
  if (cards.empty()) return "there is no GPU on this machine";
  if (named == nullptr) return fmt::format("no GPU here is named {}", wanted.device);
  if (largest == nullptr)
    return wanted.device.empty() ? "no GPU of this machine is chosen for work"
                                 : fmt::format("{} is not chosen for work", label(*named));
  if (enough == 0)
    return fmt::format("{} wanted, but {} has {} in all, and it is the largest", human_bytes(least),
                       label(*largest), human_bytes(largest->total));
  return fmt::format("{} on each of {} GPUs wanted, but only {} here {} that much",
                     human_bytes(least), wanted.gpus, enough, enough == 1 ? "has" : "have");
}

}  // namespace sluice::broker
