// A tokenizer with an encoder, for tasks on texts and on pairs of texts.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/encoder/encoder.h"
#include "models/placement.h"
#include "text/tokenizer.h"

namespace sluice::models {

struct Text {
  std::string_view text;
  std::optional<std::string_view> pair{};  // tokenized behind it, as the model's second text
};

struct TextError {
  std::size_t text;
  std::string reason;
};

// Safe to use from several threads at once.
class TextModel {
 public:
  struct Options {
    std::string output;                        // of the model
    std::optional<std::int64_t> max_length{};  // tokens; none: what the model has positions for
    Placement placement{};
  };
  // Throws not_found, invalid_argument or unavailable with folder and reason.
  TextModel(const std::filesystem::path& folder, compute::Workers& workers, const Options& options);

  // The rows of the output: one for each text, or one for each of its tokens.
  struct Result {
    std::vector<text::Encoding> encodings;
    std::vector<float> rows;
    std::vector<std::int32_t> cu_seqlens;  // the tokens of each text
    std::vector<TextError> errors;         // sorted; their rows are zeros
    std::vector<std::size_t> truncated;
  };
  Result run(std::span<const Text> texts) const;

  std::size_t width() const { return static_cast<std::size_t>(encoder_.graph().width()); }
  bool per_text() const { return encoder_.graph().pooled(); }
  std::int64_t max_length() const { return encoder_.graph().max_length(); }

 private:
  text::Encoding encode(const Text& text, bool& truncated) const;

  compute::Workers& workers_;
  const std::shared_ptr<engine::EncoderDevice> device_;  // outlives the encoder; null: the CPU
  const engine::Encoder encoder_;
  const text::Tokenizer tokenizer_;
  const std::size_t empty_, empty_pair_;  // tokens of texts without words
};

// Whether a text has nothing but spaces and line ends.
bool is_blank(std::string_view text) noexcept;

// Throws invalid_argument if the tokenizer has tokens that the model does not know.
void require_tokenizer(const text::Tokenizer& tokenizer, const engine::Encoder& encoder,
                       const std::filesystem::path& folder);

// An error that names the folder if the model has fewer positions than `length`; the length to use.
std::int64_t length_for(const std::filesystem::path& folder, std::optional<std::int64_t> length);

}  // namespace sluice::models
