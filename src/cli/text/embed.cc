// sluice embed: texts to vectors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <limits>
#include <ostream>

#include "base/printable.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/model_names.h"
#include "cli/text/text_task.h"
#include "models/embedder.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kEmbedExamples =
    "  echo 'GPUs are shared.' | sluice embed --model all-MiniLM-L6-v2 --in -\n"
    "  sluice embed --model all-MiniLM-L6-v2 --in articles.ndjson --out vectors.npy\n"
    "  sluice embed --model e5-small --in questions.txt --prompt 'query: ' --out q.npy\n"
    "  sluice embed --model all-MiniLM-L6-v2 --in articles.ndjson --out v.npy --device cuda\n"
    "A model is a folder as sentence-transformers or transformers saves it. A run that was ended\n"
    "goes on where it was when the same command is given again.";

struct EmbedFlags : TextTaskFlags {
  std::string pooling;
  models::EmbedOptions options;
  bool normalize = false, no_normalize = false;
};

models::EmbedOptions options_of(const EmbedFlags& flags, models::Placement placement) {
  models::EmbedOptions options = flags.options;
  options.placement = std::move(placement);
  if (flags.max_length > 0) options.max_length = flags.max_length;
  if (!flags.pooling.empty()) options.pooling = kernels::token_pooling_named(flags.pooling);
  if (flags.pooling == "cls") options.pooling = kernels::TokenPooling::first;
  if (flags.normalize || flags.no_normalize) options.normalize = flags.normalize;
  return options;
}

class EmbedTask final : public TextTask {
 public:
  explicit EmbedTask(const EmbedFlags& flags)
      : TextTask(flags),
        embedder_(models::Embedder::open(flags.model, workers(), options_of(flags, placement()))),
        as_rows_(flags.out.ends_with(".npy")) {}

 private:
  Batch run(std::span<const Item> items) override {
    std::vector<std::string_view> texts;
    for (const Item& item : items) texts.push_back(item.text.text);
    const std::size_t width = embedder_.dimensions();
    std::vector<float> vectors(texts.size() * width);
    models::Embedded made = embedder_.embed(texts, vectors);
    Batch batch{
        .answers = {}, .errors = std::move(made.errors), .truncated = made.truncated.size()};
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto vector = std::span(vectors).subspan(i * width, width);
      batch.answers.push_back(as_rows_ ? row(vector)
                                       : fmt::format("{{\"line\":{},\"vector\":[{}]}}\n",
                                                     items[i].line, fmt::join(vector, ",")));
    }
    return batch;
  }
  // Of a .npy file, a row of NaN.
  std::string error_answer(std::size_t line, const std::string& error) const override {
    if (!as_rows_) return TextTask::error_answer(line, error);
    return row(std::vector<float>(embedder_.dimensions(), std::numeric_limits<float>::quiet_NaN()));
  }
  bool writes_npy() const override { return true; }
  std::int64_t longest() const override { return embedder_.max_length(); }
  Json options() const override {
    return {{"dimensions", embedder_.dimensions()},
            {"pooling", to_string(embedder_.pooling())},
            {"normalize", embedder_.normalizes()},
            {"prompt", embedder_.prompt()}};
  }
  std::unique_ptr<TextOutput> open_file(const std::string& file, const Json& key) const override {
    return as_rows_ ? output_to_npy(file, embedder_.dimensions(), key) : output_to_file(file, key);
  }

  static std::string row(std::span<const float> vector) {
    return {reinterpret_cast<const char*>(vector.data()), vector.size_bytes()};
  }

  const models::Embedder embedder_;
  const bool as_rows_;
};

}  // namespace

int embed(Args args, Io& io) {
  EmbedFlags flags;
  CLI::App app("Turns texts into vectors by a sentence encoder.", "sluice embed");
  add_text_task_flags(app, flags, "vectors: .npy, or JSON a line; -: stdout (default)");
  app.add_option("--dimensions", flags.options.dimensions, "only the first so many (Matryoshka)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--prompt", flags.options.prompt, "what every text begins with: 'query: '");
  app.add_option("--prompt-name", flags.options.prompt_name, "a prompt that the model's folder has")
      ->excludes("--prompt");
  app.add_option("--pooling", flags.pooling, "of the tokens, instead of what the folder says")
      ->check(CLI::IsMember({"mean", "cls", "first", "last", "sum"}));
  auto* const normalize = app.add_flag("--normalize", flags.normalize, "vectors of length 1");
  app.add_flag("--no-normalize", flags.no_normalize, "leave the vectors' lengths as they are")
      ->excludes(normalize);
  if (!parse(app, args, io, kEmbedExamples)) return 0;
  flags.model = model_folder(flags.model, io);
  flags.on.library_dirs = library_dirs(io);
  std::error_code error;
  if (!std::filesystem::exists(flags.model + "/modules.json", error) && flags.pooling.empty())
    io.err << "sluice: " << printable(flags.model)
           << " has no modules.json: its tokens are pooled by their mean (--pooling), and vectors "
              "are not normalized (--normalize)\n";
  return EmbedTask(flags).run_all(io);
}

}  // namespace sluice::cli
