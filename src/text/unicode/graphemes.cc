#include "text/unicode/graphemes.h"

#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

using G = Grapheme;

bool is_control(G g) { return g == G::control || g == G::cr || g == G::lf; }
bool extends(G g) { return g == G::extend || g == G::linker; }

bool joins_hangul(G a, G b) {
  if (a == G::l) return b == G::l || b == G::v || b == G::lv || b == G::lvt;
  if (a == G::lv || a == G::v) return b == G::v || b == G::t;
  return (a == G::lvt || a == G::t) && b == G::t;
}

// What the rules must remember of a cluster's characters.
class Cluster {
 public:
  explicit Cluster(G first) { take(first); }

  bool joins(G next) const {
    if (last_ == G::cr) return next == G::lf;
    if (is_control(last_) || is_control(next)) return false;
    if (joins_hangul(last_, next)) return true;
    if (extends(next) || next == G::joiner || next == G::spacing || last_ == G::prepend)
      return true;
    if (next == G::consonant && indic_ && linked_) return true;
    if (next == G::pictograph && last_ == G::joiner && pictograph_) return true;
    return next == G::regional && last_ == G::regional && regionals_ % 2 == 1;
  }

  void take(G next) {
    const bool goes_on = extends(next) || next == G::joiner;
    pictograph_ = next == G::pictograph || (pictograph_ && last_ != G::joiner && goes_on);
    linked_ = goes_on && indic_ && (linked_ || next == G::linker);
    indic_ = next == G::consonant || (indic_ && goes_on);
    regionals_ = next == G::regional ? regionals_ + 1 : 0;
    last_ = next;
  }

 private:
  G last_ = G::other;
  bool pictograph_ = false;  // a pictograph, extenders, and perhaps a joiner
  bool indic_ = false;       // a consonant, extenders and linkers
  bool linked_ = false;      // with a linker
  std::size_t regionals_ = 0;
};

}  // namespace

std::size_t grapheme_end(std::string_view text, std::size_t at) noexcept {
  Cluster cluster(grapheme_of(next_code_point(text, at)));
  while (at < text.size()) {
    std::size_t next = at;
    const G g = grapheme_of(next_code_point(text, next));
    if (!cluster.joins(g)) break;
    cluster.take(g);
    at = next;
  }
  return at;
}

}  // namespace sluice::text
