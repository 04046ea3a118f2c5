// Texts to vectors: a tokenizer, an encoder, and what its folder says about pooling.
//
//   const auto embedder = models::Embedder::open("all-MiniLM-L6-v2", workers);
//   std::vector<float> vectors(texts.size() * embedder.dimensions());
//   for (const auto& error : embedder.embed(texts, vectors).errors) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/workers.h"
#include "kernels/reduce/pool_tokens.h"
#include "models/placement.h"
#include "models/text_model.h"

namespace sluice::models {

// Defaults are what the folder says.
struct EmbedOptions {
  std::optional<std::int64_t> max_length{};  // tokens with special ones; longer texts are cut
  std::optional<kernels::TokenPooling> pooling{};
  std::optional<bool> normalize{};
  std::optional<std::size_t> dimensions{};  // the first so many (Matryoshka)
  // What every text begins with: the text of a prompt of the folder, by name; or any text.
  std::optional<std::string> prompt_name{};
  std::optional<std::string> prompt{};
  Placement placement{};
};

struct Embedded {
  std::vector<TextError> errors;       // their vectors are zeros
  std::vector<std::size_t> truncated;  // texts of which only the first max_length() tokens count
  std::size_t tokens = 0;              // that were computed
};

// Safe to use from several threads at once. A text has the same vector, bit for bit, whatever is
// embedded with it.
class Embedder {
 public:
  // A folder as sentence-transformers or transformers saves it, or one with model.onnx and a
  // tokenizer. Throws not_found, invalid_argument or unavailable with file and reason.
  static Embedder open(const std::filesystem::path& folder, compute::Workers& workers,
                       const EmbedOptions& options = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  std::size_t dimensions() const noexcept;
  std::int64_t max_length() const noexcept;
  kernels::TokenPooling pooling() const noexcept;
  bool normalizes() const noexcept;
  const std::string& prompt() const noexcept;

  // Writes dimensions() numbers for each text to `out`, which has as many.
  Embedded embed(std::span<const std::string_view> texts, std::span<float> out) const;

 private:
  struct Impl;
  explicit Embedder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::models
