#include "models/embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "engine/encoder/encoder.h"
#include "engine/io/hf_import.h"
#include "models/config/sentence_folder.h"
#include "text/tokenizer.h"

namespace sluice::models {
namespace {

// Ids that the encoder takes, of all texts one behind the other.
struct Tokens {
  std::vector<std::int32_t> ids, cu_seqlens{0};

  void add(std::span<const std::uint32_t> more) {
    require(ids.size() + more.size() <= std::numeric_limits<std::int32_t>::max(),
            "more than 2^31 tokens in one call");
    ids.insert(ids.end(), more.begin(), more.end());
    cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
  }
};

std::string prompt_of(const SentenceFolder& folder, const EmbedOptions& options) {
  if (options.prompt) return *options.prompt;
  const std::string name = options.prompt_name.value_or(folder.default_prompt);
  if (name.empty()) return "";
  if (const auto found = folder.prompts.find(name); found != folder.prompts.end())
    return found->second;
  std::string known;
  for (const auto& [one, text] : folder.prompts) known += (known.empty() ? "" : ", ") + one;
  throw Error(Code::invalid_argument,
              fmt::format("the model has no prompt {}{}", in_quotes(name),
                          known.empty() ? "; give the text itself" : ", but " + known));
}

}  // namespace

struct Embedder::Impl {
  Impl(SentenceFolder of, compute::Workers& on, const EmbedOptions& options)
      : folder(std::move(of)),
        workers(on),
        device(options.placement.device),
        encoder(encoder_at(options.placement, engine::import_model(folder.encoder), on,
                           {.max_length = folder.max_length, .pooling = folder.pooling})),
        tokenizer(text::Tokenizer::open(folder.encoder)),
        prompt(prompt_of(folder, options)),
        empty_tokens(tokenizer.encode("").size()) {}

  void check(const EmbedOptions& options);
  Tokens tokenized(std::span<const std::string_view> texts, Embedded& result) const;
  void finish(std::vector<float> pooled, std::span<float> out) const;

  SentenceFolder folder;
  compute::Workers& workers;
  const std::shared_ptr<engine::EncoderDevice> device;  // outlives the encoder; null: the CPU
  const engine::Encoder encoder;
  const text::Tokenizer tokenizer;
  const std::string prompt;
  const std::size_t empty_tokens;  // of a text without words
  std::size_t dimensions = 0;
};

void Embedder::Impl::check(const EmbedOptions& options) {
  require_tokenizer(tokenizer, encoder, folder.encoder);
  auto width = static_cast<std::int64_t>(encoder.graph().width());
  for (const Dense& dense : folder.dense) {
    if (dense.in() != width)
      throw Error(Code::invalid_argument,
                  fmt::format("a dense layer takes {} numbers and gets {}", dense.in(), width));
    width = dense.out();
  }
  dimensions = options.dimensions.value_or(static_cast<std::size_t>(width));
  require(dimensions > 0 && dimensions <= static_cast<std::size_t>(width),
          fmt::format("{} dimensions, of vectors that have {}", dimensions, width));
}

// Texts without words get an error; texts that are too long are cut.
Tokens Embedder::Impl::tokenized(std::span<const std::string_view> texts, Embedded& result) const {
  std::vector<std::string> prompted;
  std::vector<std::string_view> all(texts.begin(), texts.end());
  if (!prompt.empty()) {
    for (const std::string_view text : texts) prompted.push_back(prompt + std::string(text));
    std::ranges::copy(prompted, all.begin());
  }
  const auto threads = static_cast<std::size_t>(workers.threads());
  const text::Batch batch = tokenizer.encode_batch(all, {.threads = threads});
  const auto max_length = static_cast<std::size_t>(folder.max_length);
  Tokens tokens;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t count = batch.cu_seqlens[i + 1] - batch.cu_seqlens[i];
    const bool empty = prompt.empty() ? count <= empty_tokens : is_blank(texts[i]);
    if (empty) {
      result.errors.push_back({i, "the text is empty"});
      tokens.add({});
    } else if (count > max_length) {
      result.truncated.push_back(i);
      const text::Truncation cut{.max_length = max_length, .keeps_overflow = false};
      tokens.add(tokenizer.encode(all[i], {.truncation = cut}).ids);
    } else {
      tokens.add(std::span(batch.ids).subspan(batch.cu_seqlens[i], count));
    }
  }
  return tokens;
}

// Pooled rows to vectors.
void Embedder::Impl::finish(std::vector<float> pooled, std::span<float> out) const {
  for (const Dense& dense : folder.dense) pooled = apply(dense, pooled, workers);
  const std::size_t texts = out.size() / dimensions, width = pooled.size() / texts;
  for (std::size_t i = 0; i < texts; ++i) {
    const std::span<float> row = out.subspan(i * dimensions, dimensions);
    std::ranges::copy(std::span(pooled).subspan(i * width, dimensions), row.begin());
    if (folder.normalize) kernels::cpu::normalize_row(row.data(), row.size());
  }
}

Embedder::Embedder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

Embedder Embedder::open(const std::filesystem::path& folder, compute::Workers& workers,
                        const EmbedOptions& options) {
  SentenceFolder read = read_sentence_folder(folder);
  if (options.max_length) read.max_length = *options.max_length;
  read.max_length = length_for(read.encoder, read.max_length);
  if (options.pooling) read.pooling = *options.pooling;
  if (options.normalize) read.normalize = *options.normalize;
  auto impl = std::make_unique<Impl>(std::move(read), workers, options);
  impl->check(options);
  return Embedder(std::move(impl));
}

std::size_t Embedder::dimensions() const noexcept { return impl_->dimensions; }
std::int64_t Embedder::max_length() const noexcept { return impl_->folder.max_length; }
kernels::TokenPooling Embedder::pooling() const noexcept { return impl_->folder.pooling; }
bool Embedder::normalizes() const noexcept { return impl_->folder.normalize; }
const std::string& Embedder::prompt() const noexcept { return impl_->prompt; }

Embedded Embedder::embed(std::span<const std::string_view> texts, std::span<float> out) const {
  require(out.size() == texts.size() * dimensions(),
          fmt::format("room for {} numbers, where {} texts have {} each", out.size(), texts.size(),
                      dimensions()));
  Embedded result;
  if (texts.empty()) return result;
  const Tokens tokens = impl_->tokenized(texts, result);
  std::vector<float> pooled(texts.size() *
                            static_cast<std::size_t>(impl_->encoder.graph().width()));
  const auto faults = impl_->encoder.run(
      {.ids = tokens.ids, .type_ids = {}, .cu_seqlens = tokens.cu_seqlens}, pooled);
  std::vector<char> known(texts.size());
  for (const TextError& error : result.errors) known[error.text] = 1;
  const auto add_error = [&](std::size_t text, std::string reason) {
    if (std::exchange(known[text], 1) == 0) result.errors.push_back({text, std::move(reason)});
  };
  for (const engine::SequenceError& fault : faults) add_error(fault.sequence, fault.reason);
  result.tokens = tokens.ids.size();
  impl_->finish(std::move(pooled), out);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!std::ranges::all_of(out.subspan(i * dimensions(), dimensions()),
                             [](float x) { return std::isfinite(x); }))
      add_error(i, "its result is not finite");
  for (const TextError& error : result.errors)
    std::ranges::fill(out.subspan(error.text * dimensions(), dimensions()), 0.0f);
  std::ranges::sort(result.errors, {}, &TextError::text);
  return result;
}

}  // namespace sluice::models
