#include "text/tokenizer.h"

#include "base/error.h"
#include "text/batch.h"
#include "text/encode_one.h"
#include "text/io/read.h"

namespace sluice::text {
namespace {

// Of ids that are decoded, on average: a tokenizer file may have tokens of megabytes.
constexpr std::size_t kMostBytesPerToken = 1024, kAlwaysShown = std::size_t{1} << 20;

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(Pipeline of) : pipeline(std::move(of)), encoder(pipeline), ids(pipeline) {}

  Pipeline pipeline;
  OneEncoder encoder;
  BatchEncoder ids;
};

Tokenizer Tokenizer::open(const std::filesystem::path& path) {
  return Tokenizer(read_pipeline(path));
}

Tokenizer::Tokenizer(Pipeline pipeline) : impl_(std::make_shared<Impl>(std::move(pipeline))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(const Tokenizer&) = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(const Tokenizer&) = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Encoding> texts;
  texts.push_back(impl_->encoder.encode(text, 0, options.offsets));
  return process(impl_->pipeline.processor.get(), std::move(texts), options.add_special,
                 options.truncation);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  std::vector<Encoding> texts;
  texts.push_back(impl_->encoder.encode(first, 0, options.offsets));
  texts.push_back(impl_->encoder.encode(second, 1, options.offsets));
  return process(impl_->pipeline.processor.get(), std::move(texts), options.add_special,
                 options.truncation);
}

Batch Tokenizer::encode_batch(std::span<const std::string_view> texts,
                              const BatchOptions& options) const {
  return impl_->ids.encode(texts, options);
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
  Tokens tokens;
  std::size_t bytes = 0;
  const std::size_t most = ids.size() * kMostBytesPerToken + kAlwaysShown;
  for (const std::uint32_t id : ids) {
    auto shown = token(id);
    if (!shown || (skip_special && impl_->pipeline.added.is_special(*shown))) continue;
    require_made(bytes += shown->size(), most);
    tokens.push_back(*std::move(shown));
  }
  const bool joins = impl_->pipeline.decoder == nullptr;
  if (!joins) impl_->pipeline.decoder->apply(tokens, most_made_of(bytes));
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) text += (joins && i > 0 ? " " : "") + tokens[i];
  return text;
}

std::optional<std::uint32_t> Tokenizer::id(std::string_view token) const {
  const auto added = impl_->pipeline.added.id(token);
  return added ? added : impl_->pipeline.model->vocabulary().find(token);
}

std::optional<std::string> Tokenizer::token(std::uint32_t id) const {
  if (const auto shown = impl_->pipeline.added.token(id)) return std::string(*shown);
  const auto known = impl_->pipeline.model->vocabulary().token(id);
  return known ? std::optional(std::string(*known)) : std::nullopt;
}

std::size_t Tokenizer::vocabulary_size() const {
  const auto& known = impl_->pipeline.model->vocabulary();
  return known.size() + impl_->pipeline.added.count_beside(known);
}

const std::optional<Truncation>& Tokenizer::truncation() const noexcept {
  return impl_->pipeline.truncation;
}

}  // namespace sluice::text
