// How fast a tokenizer is on texts of one's own.
#pragma once

#include <string>
#include <vector>

#include "device/bench/bench.h"
#include "text/tokenizer.h"

namespace sluice::cli {

// Bytes of text a second: of one thread by its CPU time, of all threads by the clock. The first
// pass fills the caches and is named in the detail.
std::vector<device::BenchRow> bench_tokenizer_rows(const text::Tokenizer& tokenizer,
                                                   const std::vector<std::string>& texts,
                                                   std::size_t threads, bool quick,
                                                   const device::BenchProgress& progress);

}  // namespace sluice::cli
