// Many texts to ids alone, on several threads.
#pragma once

#include <memory>

#include "text/io/pipeline.h"
#include "text/tokenizer.h"

namespace sluice::text {

class BatchEncoder {
 public:
  // `pipeline` must outlive it.
  explicit BatchEncoder(const Pipeline& pipeline);
  ~BatchEncoder();

  Batch encode(std::span<const std::string_view> texts, const BatchOptions& options) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::text
