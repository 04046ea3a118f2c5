// sluice embed: texts to vectors.
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/printable.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/progress.h"
#include "cli/text/text_lines.h"
#include "cli/text/vector_output.h"
#include "models/embedder.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kEmbedExamples =
    "  echo 'GPUs are shared.' | sluice embed --model all-MiniLM-L6-v2 --in -\n"
    "  sluice embed --model all-MiniLM-L6-v2 --in articles.ndjson --out vectors.npy\n"
    "  sluice embed --model e5-small --in questions.txt --prompt 'query: ' --out q.npy\n"
    "A model is a folder as sentence-transformers or transformers saves it. A run that was ended\n"
    "goes on where it was when the same command is given again.";

struct EmbedFlags {
  std::string model, input, out = "-", format, pooling;
  models::EmbedOptions options;
  bool no_normalize = false, fresh = false, json = false;
  int threads = 0;
};

// What must be equal for a run to go on with what another wrote.
Json key_of(const EmbedFlags& flags, const models::Embedder& embedder) {
  struct stat input {
  }, model{};
  stat(flags.input.c_str(), &input);
  stat(flags.model.c_str(), &model);
  const auto stamp = [](const struct stat& file) {
    return fmt::format("{}:{}:{}.{:09}", file.st_ino, file.st_size, file.st_mtim.tv_sec,
                       file.st_mtim.tv_nsec);
  };
  return {{"input", flags.input},
          {"input_file", stamp(input)},
          {"model", flags.model},
          {"model_folder", stamp(model)},
          {"format", flags.format},
          {"pooling", to_string(embedder.pooling())},
          {"normalize", embedder.normalizes()},
          {"dimensions", embedder.dimensions()},
          {"max_length", embedder.max_length()},
          {"prompt", embedder.prompt()}};
}

std::uint64_t size_of(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)
             ? static_cast<std::uint64_t>(file.st_size)
             : 0;
}

class EmbedRun {
 public:
  EmbedRun(const EmbedFlags& flags, Io& io)
      : flags_(flags),
        io_(io),
        workers_(flags.threads),
        embedder_(models::Embedder::open(flags.model, workers_, flags.options)),
        lines_(flags.input, io.in),
        format_(flags.format.empty()       ? format_of_texts(flags.input)
                : flags.format == "ndjson" ? TextFormat::ndjson
                                           : TextFormat::lines),
        input_bytes_(size_of(flags.input)),
        progress_(io.err) {}

  int run() {
    output_ = open_output();
    resume();
    const Clock::time_point start = Clock::now();
    std::string_view line;
    while (lines_.next(line)) {
      batch_.push_back(text_item(line, lines_, format_, false));
      batch_bytes_ += batch_.back().text.size();
      if (batch_.size() >= kBatchTexts || batch_bytes_ >= kBatchBytes) embed_batch(start);
    }
    embed_batch(start);
    output_->finish();
    report(std::chrono::duration<double>(Clock::now() - start).count());
    return failed_ > 0 ? 1 : 0;
  }

 private:
  static constexpr std::size_t kBatchTexts = 256, kBatchBytes = std::size_t{4} << 20;
  static constexpr std::chrono::seconds kSaveEach{1};

  std::unique_ptr<VectorOutput> open_output() {
    if (flags_.out == "-") return json_output(io_.out);
    Json key = flags_.input == "-" ? Json() : key_of(flags_, embedder_);
    // A pipe cannot be read again: such a run never goes on.
    if (key.is_null() || flags_.fresh)
      key = fmt::format("{}", Clock::now().time_since_epoch().count());
    return flags_.out.ends_with(".npy") ? npy_output(flags_.out, embedder_.dimensions(), key)
                                        : json_output(flags_.out, key);
  }

  void resume() {
    const Json& state = output_->state();
    if (state.is_null()) return;
    texts_ = resumed_ = state.at("texts").get<std::size_t>();
    failed_ = state.at("failed").get<std::size_t>();
    truncated_ = state.at("truncated").get<std::size_t>();
    lines_.go_to(state.at("offset").get<std::uint64_t>(), state.at("line").get<std::size_t>());
    io_.err << fmt::format("sluice: going on after {} texts of an earlier run\n", texts_);
  }

  void embed_batch(Clock::time_point start) {
    std::vector<std::string_view> texts;
    for (const TextItem& item : batch_) texts.push_back(item.text);
    std::vector<float> vectors(texts.size() * embedder_.dimensions());
    const models::Embedded made = embedder_.embed(texts, vectors);
    for (const models::TextError& error : made.errors) {
      TextItem& item = batch_[error.text];
      if (item.error.empty())
        item.error = fmt::format("{}:{}: {}", lines_.name(), item.line, error.reason);
    }
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (!batch_[i].error.empty()) {
        ++failed_;
        io_.err << "sluice: " << printable(batch_[i].error) << "\n";
      }
      output_->add(batch_[i].line,
                   std::span(vectors).subspan(i * embedder_.dimensions(), embedder_.dimensions()),
                   batch_[i].error);
    }
    texts_ += batch_.size();
    truncated_ += made.truncated.size();
    tokens_ += made.tokens;
    batch_.clear();
    batch_bytes_ = 0;
    show(std::chrono::duration<double>(Clock::now() - start).count());
    if (Clock::now() - saved_ > kSaveEach) save();
  }

  void save() {
    output_->save({{"texts", texts_},
                   {"failed", failed_},
                   {"truncated", truncated_},
                   {"line", lines_.number()},
                   {"offset", lines_.offset()}});
    saved_ = Clock::now();
  }

  void show(double seconds) {
    const double share = input_bytes_ == 0 ? 0
                                           : static_cast<double>(lines_.offset()) /
                                                 static_cast<double>(input_bytes_);
    progress_.show(share, fmt::format("{} texts, {:.0f} a second", texts_,
                                      static_cast<double>(texts_ - resumed_) / seconds));
  }

  void report(double seconds) {
    const double rate = static_cast<double>(texts_ - resumed_) / seconds;
    if (flags_.json) {
      (flags_.out == "-" ? io_.err : io_.out) << Json{{"texts", texts_},
                                                      {"failed", failed_},
                                                      {"truncated", truncated_},
                                                      {"tokens", tokens_},
                                                      {"dimensions", embedder_.dimensions()},
                                                      {"seconds", seconds},
                                                      {"texts_per_second", rate},
                                                      {"out", flags_.out}}
                                                     .dump(2)
                                              << "\n";
      return;
    }
    std::ostream& out = io_.err;
    if (flags_.out != "-")
      out << fmt::format("{} texts, {} numbers each, in {:.2f} s ({:.1f} a second): {}\n", texts_,
                         embedder_.dimensions(), seconds, rate, flags_.out);
    if (truncated_ > 0)
      out << fmt::format(
          "sluice: {} of {} texts have more than {} tokens; the rest of them did not count "
          "(--max-length)\n",
          truncated_, texts_, embedder_.max_length());
    if (failed_ > 0) out << fmt::format("sluice: {} of {} texts have no vector\n", failed_, texts_);
  }

  const EmbedFlags& flags_;
  Io& io_;
  compute::Workers workers_;
  const models::Embedder embedder_;
  LineReader lines_;
  const TextFormat format_;
  const std::uint64_t input_bytes_;
  Progress progress_;
  std::unique_ptr<VectorOutput> output_;
  std::vector<TextItem> batch_;
  std::size_t batch_bytes_ = 0;
  std::size_t texts_ = 0, failed_ = 0, truncated_ = 0, tokens_ = 0, resumed_ = 0;
  Clock::time_point saved_ = Clock::now();
};

void add_flags(CLI::App& app, EmbedFlags& flags) {
  app.add_option("--model,-m", flags.model, "a folder with a model and its tokenizer")
      ->type_name("FOLDER")
      ->required()
      ->check(not_empty("a model folder"));
  app.add_option("--in,-i", flags.input, "texts, one a line; .ndjson: objects with text; -: stdin")
      ->type_name("FILE")
      ->required()
      ->check(not_empty("a file, or - for stdin"));
  app.add_option("--out,-o", flags.out, "vectors: .npy, or JSON a line; -: stdout (default)")
      ->type_name("FILE")
      ->check(not_empty("a file, or - for stdout"));
  app.add_option("--format", flags.format, "of the input, whatever its name")
      ->check(CLI::IsMember({"lines", "ndjson"}));
  app.add_option("--max-length", flags.options.max_length, "cut texts to so many tokens")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--dimensions", flags.options.dimensions, "only the first so many (Matryoshka)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--prompt", flags.options.prompt, "what every text begins with: 'query: '");
  app.add_option("--prompt-name", flags.options.prompt_name, "a prompt that the model's folder has")
      ->excludes("--prompt");
  app.add_option("--pooling", flags.pooling, "of the tokens, instead of what the folder says")
      ->check(CLI::IsMember({"mean", "first", "last", "sum"}));
  app.add_flag("--no-normalize", flags.no_normalize, "leave the vectors' lengths as they are");
  app.add_flag("--fresh", flags.fresh, "begin anew, whatever an earlier run wrote");
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print the summary as JSON");
}

}  // namespace

int embed(Args args, Io& io) {
  EmbedFlags flags;
  CLI::App app("Turns texts into vectors by a sentence encoder.", "sluice embed");
  add_flags(app, flags);
  if (!parse(app, args, io, kEmbedExamples)) return 0;
  if (!flags.pooling.empty()) flags.options.pooling = kernels::token_pooling_named(flags.pooling);
  if (flags.no_normalize) flags.options.normalize = false;
  return EmbedRun(flags, io).run();
}

}  // namespace sluice::cli
