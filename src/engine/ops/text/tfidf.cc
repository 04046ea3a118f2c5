// TfIdfVectorizer: how often the n-grams of a pool occur, weighted.
#include <map>

#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

template <class T>
using Gram = std::vector<T>;

// The checked attributes.
struct Options {
  std::int64_t min, max_length, max_skipped;
  std::string mode;
  std::vector<std::int64_t> counts, indexes;
  std::vector<float> weights;
  std::int64_t width = 0;  // of an output row

  explicit Options(const Attributes& a)
      : min(a.integer("min_gram_length")),
        max_length(a.integer("max_gram_length")),
        max_skipped(a.integer("max_skip_count")),
        mode(a.string("mode", "")),
        counts(a.integers("ngram_counts")),
        indexes(a.integers("ngram_indexes")),
        weights(a.reals("weights")) {
    require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "no mode '" + mode + "'");
    require(min > 0 && max_length >= min && max_skipped >= 0, "lengths of n-grams or skips");
    require(weights.empty() || weights.size() == indexes.size(),
            std::to_string(weights.size()) + " weights for " + std::to_string(indexes.size()) +
                " n-grams");
    for (const std::int64_t index : indexes) {
      require(index >= 0 && index < (1 << 27), "n-gram index " + std::to_string(index));
      width = std::max(width, index + 1);
    }
  }
};

// The pool holds all 1-grams, then all 2-grams, and so on; ngram_counts gives where each begins.
template <class T>
std::map<Gram<T>, std::size_t> grams_of(const Options& options, const std::vector<T>& pool) {
  std::map<Gram<T>, std::size_t> grams;
  std::size_t number = 0;
  for (std::size_t n = 1; n <= options.counts.size(); ++n) {
    const std::int64_t begin = options.counts[n - 1];
    const std::int64_t end =
        n < options.counts.size() ? options.counts[n] : static_cast<std::int64_t>(pool.size());
    require(begin >= 0 && begin <= end && end <= static_cast<std::int64_t>(pool.size()) &&
                static_cast<std::size_t>(end - begin) % n == 0,
            "the counts of n-grams do not fit the pool");
    for (std::int64_t at = begin; at < end; at += static_cast<std::int64_t>(n)) {
      const auto first = pool.begin() + at;
      grams.emplace(Gram<T>(first, first + static_cast<std::ptrdiff_t>(n)), number++);
    }
  }
  require(number == options.indexes.size(), std::to_string(options.indexes.size()) +
                                                " indexes for " + std::to_string(number) +
                                                " n-grams");
  return grams;
}

// Counts the n-grams in one row of `size` words. Words of an n-gram are 1 + skip apart.
template <class T, class Found>
void count_row(const Options& options, const T* row, std::int64_t size, Found&& found) {
  for (std::int64_t n = options.min; n <= std::min(options.max_length, size); ++n) {
    const std::int64_t skips = n == 1 ? 0 : std::min(options.max_skipped, size);
    for (std::int64_t skip = 0; skip <= skips; ++skip) {
      const std::int64_t step = skip + 1;
      for (std::int64_t at = 0; at + (n - 1) * step < size; ++at) {
        Gram<T> gram;
        for (std::int64_t k = 0; k < n; ++k) gram.push_back(row[at + k * step]);
        found(gram);
      }
    }
  }
}

template <class T, class Source>
void vectorize(OpCall& call, const std::vector<T>& pool) {
  const Options options(call.attributes());
  const std::map<Gram<T>, std::size_t> grams = grams_of(options, pool);
  const Tensor& data = call.input(0);
  require(data.rank() == 1 || data.rank() == 2,
          "a list or rows of words, not " + to_string(data.shape()));
  const std::int64_t rows = data.rank() == 2 ? data.shape()[0] : 1;
  const std::int64_t size = data.shape()[data.rank() - 1];
  Shape shape{options.width};
  if (data.rank() == 2) shape.insert(0, rows);
  const auto out = call.output(0, DType::f32, shape).values<float>();
  std::fill(out.begin(), out.end(), 0.0f);
  const auto source = data.values<Source>();
  const std::vector<T> words(source.begin(), source.end());
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const to = out.data() + row * options.width;
    count_row<T>(options, words.data() + row * size, size, [&](const Gram<T>& gram) {
      const auto known = grams.find(gram);
      if (known == grams.end()) return;
      float& value = to[options.indexes[known->second]];
      const float weight = options.weights.empty() ? 1.0f : options.weights[known->second];
      if (options.mode == "TF")
        value += 1;
      else if (options.mode == "IDF")
        value = weight;
      else
        value += weight;
    });
  }
}

void tfidf(OpCall& call) {
  const Attributes& a = call.attributes();
  switch (call.input(0).dtype()) {
    case DType::string: return vectorize<std::string, std::string>(call, a.strings("pool_strings"));
    case DType::i32: return vectorize<std::int64_t, std::int32_t>(call, a.integers("pool_int64s"));
    default: return vectorize<std::int64_t, std::int64_t>(call, a.integers("pool_int64s"));
  }
}

constexpr Op kTfidfOps[] = {
    {"TfIdfVectorizer", 9, {DType::string, DType::i32, DType::i64}, tfidf},
};

}  // namespace

std::span<const Op> tfidf_ops() { return kTfidfOps; }

}  // namespace sluice::engine
