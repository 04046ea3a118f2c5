#include "text/model/vocabulary.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace sluice::text {

void Vocabulary::add(std::string_view token, std::uint32_t id) {
  if (id > kMaxTokenId)
    throw Error(Code::invalid_argument,
                fmt::format("the id {} of {} is above {}", id, in_quotes(token), kMaxTokenId));
  const auto place = ids_.insert_or_assign(std::string(token), id).first;
  if (id >= tokens_.size()) tokens_.resize(id + 1);
  tokens_[id] = &place->first;
}

}  // namespace sluice::text
