// Tokenizers of Hugging Face and SentencePiece: text to ids and back, as the reference does
// (`tokenizers` 0.23), offsets included.
//
//   const auto tokenizer = text::Tokenizer::open("all-MiniLM-L6-v2");   // a folder or a file
//   const auto encoding = tokenizer.encode("GPUs are shared.");
//   const auto batch = tokenizer.encode_batch(texts, {.truncation = Truncation{.max_length =
//   512}});
//
// A text is UTF-8; ill-formed parts of it count as U+FFFD. It has at most 256 MiB.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/process/encoding.h"

namespace sluice::text {

enum class OffsetUnit { characters, bytes };  // characters: code points

struct EncodeOptions {
  bool add_special = true;  // [CLS] and the like
  std::optional<Truncation> truncation = std::nullopt;
  OffsetUnit offsets = OffsetUnit::characters;  // of the text with U+FFFD in it
};

struct BatchOptions {
  bool add_special = true;
  std::optional<Truncation> truncation = std::nullopt;  // its overflow is dropped
  std::size_t threads = 1;                              // 0: one a core
};

// Texts one behind the other, without padding: text i has ids [cu_seqlens[i], cu_seqlens[i + 1]).
struct Batch {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint64_t> cu_seqlens{0};

  std::size_t size() const noexcept { return cu_seqlens.size() - 1; }
};

struct Pipeline;  // io/pipeline.h

// Immutable and cheap to copy. Any number of threads may use one at a time: each call takes its
// working memory, with caches of words, from a pool. Caches are bounded, a few MB a thread.
class Tokenizer {
 public:
  // A folder (tokenizer.json; without it vocab.txt, then a SentencePiece model) or one of these
  // files. Throws not_found, or invalid_argument with file, field and reason.
  static Tokenizer open(const std::filesystem::path& path);
  explicit Tokenizer(Pipeline pipeline);
  ~Tokenizer();
  Tokenizer(const Tokenizer&);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(const Tokenizer&);
  Tokenizer& operator=(Tokenizer&&) noexcept;

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  // The ids of encode() for each text; much faster.
  Batch encode_batch(std::span<const std::string_view> texts,
                     const BatchOptions& options = {}) const;

  // Ids that are not in the vocabulary are left out.
  std::string decode(std::span<const std::uint32_t> ids, bool skip_special = true) const;

  std::optional<std::uint32_t> id(std::string_view token) const;
  std::optional<std::string> token(std::uint32_t id) const;
  std::size_t vocabulary_size() const;  // with added tokens
  // What the file asks for. It is applied only where a caller asks for it, too.
  const std::optional<Truncation>& truncation() const noexcept;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice::text
