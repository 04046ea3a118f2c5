// Byte-pair encoding: of the neighbours that merge, those of the lowest rank do so first, from the
// left. A short word is searched again for each merge; a long one has a heap.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/model/flat_map.h"
#include "text/model/model.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

using Symbol = ModelScratch::Symbol;
using Merge = ModelScratch::Merge;

constexpr std::size_t kShortWord = 24;  // symbols

struct Rule {
  std::uint32_t rank = 0, id = 0;
};

bool comes_later(const Merge& a, const Merge& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

class Bpe final : public Model {
 public:
  Bpe(Vocabulary vocabulary, const MergePairs& merges, const BpeOptions& options)
      : Model(std::move(vocabulary)), options_(options) {
    if (options.unknown) unknown_ = vocabulary_.find(*options.unknown);
    for (std::size_t i = 0; i < merges.size(); ++i) add_rule(merges[i], i);
    find_bytes();
  }

  void tokenize(std::string_view word, ModelScratch& scratch,
                std::vector<Token>& tokens) const override {
    if (options_.ignore_merges)
      if (const auto id = vocabulary_.find(word)) {
        tokens.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
        return;
      }
    scratch.symbols.clear();
    split(word, scratch);
    scratch.symbols.size() <= kShortWord ? merge_short(scratch.symbols) : merge_long(scratch);
    std::uint32_t at = 0;
    for (const Symbol& symbol : scratch.symbols) {
      if (symbol.gone) continue;
      tokens.push_back({symbol.id, at, at + symbol.length});
      at += symbol.length;
    }
  }

 private:
  void add_rule(const std::pair<std::string, std::string>& pair, std::size_t rank) {
    const auto id = [&](const std::string& token) {
      const auto found = vocabulary_.find(token);
      require(found.has_value(),
              fmt::format("merge {}: {} is not in the vocabulary", rank, in_quotes(token)));
      return *found;
    };
    require(pair.second.size() >= options_.prefix.size(),
            fmt::format("merge {}: {} is shorter than the prefix", rank, in_quotes(pair.second)));
    const std::uint32_t a = id(pair.first), b = id(pair.second);
    const Rule rule{static_cast<std::uint32_t>(rank),
                    id(pair.first + pair.second.substr(options_.prefix.size()))};
    rules_.insert(key(a, b), rule) = rule;  // the last of equal merges holds
  }

  void find_bytes() {
    if (!options_.byte_fallback) return;
    for (unsigned byte = 0; byte < 256; ++byte)
      bytes_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }

  static std::uint64_t key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

  static void add(std::vector<Symbol>& symbols, std::uint32_t id, std::size_t length) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    if (at > 0) symbols.back().next = at;
    symbols.push_back({id, static_cast<std::uint32_t>(length), at - 1, -1});
  }

  // The characters of a word as tokens.
  void split(std::string_view word, ModelScratch& scratch) const {
    std::optional<std::size_t> unknown;  // bytes that no token covers yet
    const auto flush = [&] {
      if (unknown) add(scratch.symbols, *unknown_, *unknown);
      unknown.reset();
    };
    for_each_code_point(word, [&](char32_t, std::size_t begin, std::size_t end) {
      const auto part = decorated(word, begin, end, scratch.text);
      if (const auto id = vocabulary_.find(part)) {
        flush();
        add(scratch.symbols, *id, end - begin);
      } else if (!add_bytes(part, begin > 0 ? options_.prefix.size() : 0, end - begin,
                            scratch.symbols) &&
                 unknown_) {
        if (!options_.fuse_unknown) flush();
        unknown = unknown.value_or(0) + (end - begin);
      }
    });
    flush();
  }

  std::string_view decorated(std::string_view word, std::size_t begin, std::size_t end,
                             std::string& store) const {
    const auto part = word.substr(begin, end - begin);
    const bool has_prefix = begin > 0 && !options_.prefix.empty();
    const bool has_suffix = end == word.size() && !options_.suffix.empty();
    if (!has_prefix && !has_suffix) return part;
    store.clear();
    if (has_prefix) store += options_.prefix;
    store += part;
    if (has_suffix) store += options_.suffix;
    return store;
  }

  // The bytes of a character that stands behind `before` bytes of prefix. Those of the prefix and
  // the suffix have ids, as in the reference, and no length: they are no bytes of the word. False,
  // and nothing changes, unless all bytes have a token.
  bool add_bytes(std::string_view part, std::size_t before, std::size_t length,
                 std::vector<Symbol>& symbols) const {
    if (!options_.byte_fallback) return false;
    const auto id = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (!std::ranges::all_of(part, [&](char c) { return id(c).has_value(); })) return false;
    for (std::size_t i = 0; i < part.size(); ++i)
      add(symbols, *id(part[i]), i >= before && i < before + length ? 1 : 0);
    return true;
  }

  void merge_short(std::vector<Symbol>& symbols) const {
    std::size_t count = symbols.size();
    const Rule* rules[kShortWord];
    const auto rule_at = [&](std::size_t i) {
      return i + 1 < count ? rules_.find(key(symbols[i].id, symbols[i + 1].id)) : nullptr;
    };
    for (std::size_t i = 0; i < count; ++i) rules[i] = rule_at(i);
    for (;;) {
      std::size_t best = count;
      for (std::size_t i = 0; i + 1 < count; ++i)
        if (rules[i] && (best == count || rules[i]->rank < rules[best]->rank)) best = i;
      if (best == count) break;
      symbols[best].id = rules[best]->id;
      symbols[best].length += symbols[best + 1].length;
      std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
                symbols.begin() + static_cast<std::ptrdiff_t>(count),
                symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(rules + best + 2, rules + count, rules + best + 1);
      --count;
      rules[best] = rule_at(best);
      if (best > 0) rules[best - 1] = rule_at(best - 1);
    }
    symbols.resize(count);
  }

  void propose(ModelScratch& scratch, std::int32_t at) const {
    const Symbol& symbol = scratch.symbols[static_cast<std::size_t>(at)];
    if (symbol.next < 0) return;
    const auto next = scratch.symbols[static_cast<std::size_t>(symbol.next)].id;
    const Rule* rule = rules_.find(key(symbol.id, next));
    if (rule == nullptr) return;
    scratch.merges.push_back({rule->rank, static_cast<std::uint32_t>(at), rule->id});
    std::ranges::push_heap(scratch.merges, comes_later);
  }

  void merge_long(ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    scratch.merges.clear();
    for (std::size_t i = 0; i < symbols.size(); ++i) propose(scratch, static_cast<std::int32_t>(i));
    while (!scratch.merges.empty()) {
      std::ranges::pop_heap(scratch.merges, comes_later);
      const Merge merge = scratch.merges.back();
      scratch.merges.pop_back();
      Symbol& left = symbols[merge.at];
      if (left.gone || left.next < 0) continue;
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      const Rule* rule = rules_.find(key(left.id, right.id));
      if (rule == nullptr || rule->id != merge.id) continue;  // its symbols have merged otherwise
      left.id = merge.id;
      left.length += right.length;
      left.next = right.next;
      right.gone = true;
      if (left.next >= 0)
        symbols[static_cast<std::size_t>(left.next)].previous = static_cast<std::int32_t>(merge.at);
      if (left.previous >= 0) propose(scratch, left.previous);
      propose(scratch, static_cast<std::int32_t>(merge.at));
    }
  }

  BpeOptions options_;
  std::optional<std::uint32_t> unknown_;
  std::optional<std::uint32_t> bytes_[256];
  FlatMap<Rule> rules_;
};

void require_affix(std::string_view name, std::string_view affix) {
  require(affix.size() <= kMaxAffixBytes,
          fmt::format("the {} has {} bytes; shorten it to at most {}", name, affix.size(),
                      kMaxAffixBytes));
}

}  // namespace

ModelPtr make_bpe(Vocabulary vocabulary, const MergePairs& merges, const BpeOptions& options) {
  require(
      !options.unknown || vocabulary.find(*options.unknown),
      "the unknown token " + in_quotes(options.unknown.value_or("")) + " is not in the vocabulary");
  require_affix("continuing_subword_prefix", options.prefix);
  require_affix("end_of_word_suffix", options.suffix);
  return std::make_shared<Bpe>(std::move(vocabulary), merges, options);
}

}  // namespace sluice::text
