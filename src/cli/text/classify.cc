// sluice classify and sluice rerank: scores of texts, and of passages for a query.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "base/error.h"
#include "base/printable.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/model_names.h"
#include "cli/text/text_lines.h"
#include "cli/text/text_task.h"
#include "models/classifier.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kClassifyExamples =
    "  echo 'The new release is a joy to use.' | sluice classify --model distilbert-sst2 --in -\n"
    "  sluice classify --model topics --in articles.ndjson --top 3 --out topics.jsonl\n"
    "  sluice classify --model nli --in pairs.tsv --pair --all\n"
    "A model is a folder of ...ForSequenceClassification, or one with a model.onnx whose output\n"
    "is logits.";

constexpr std::string_view kRerankExamples =
    "  sluice rerank --model ms-marco-MiniLM --query 'who leases GPUs' --in passages.txt --top 5\n"
    "A model is a cross-encoder: a folder of ...ForSequenceClassification with one output.";

struct ClassifyFlags : TextTaskFlags {
  std::size_t top = 1;
  bool all = false, logits = false;
};

class ClassifyTask final : public TextTask {
 public:
  explicit ClassifyTask(const ClassifyFlags& flags)
      : TextTask(flags),
        flags_(flags),
        classifier_(flags.model, workers(), max_length(), placement()) {}

 private:
  Batch run(std::span<const Item> items) override {
    std::vector<models::Text> texts;
    for (const Item& item : items) texts.push_back(item.text);
    models::Classified made = classifier_.classify(texts, flags_.logits);
    Batch batch{
        .answers = {}, .errors = std::move(made.errors), .truncated = made.truncated.size()};
    const std::size_t width = classifier_.labels().names.size();
    for (std::size_t i = 0; i < items.size(); ++i)
      batch.answers.push_back(
          json_line(items[i].line, labels_of(std::span(made.scores).subspan(i * width, width))));
    return batch;
  }
  std::int64_t longest() const override { return classifier_.max_length(); }
  Json options() const override {
    return {{"top", flags_.top}, {"all", flags_.all}, {"logits", flags_.logits}};
  }

  Json labels_of(std::span<const float> scores) const {
    const std::vector<std::string>& names = classifier_.labels().names;
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t i) { return scores[i]; });
    const std::size_t shown = flags_.all ? order.size() : std::min(flags_.top, order.size());
    if (shown == 1) return {{"label", names[order[0]]}, {"score", scores[order[0]]}};
    Json list = Json::array();
    for (std::size_t i = 0; i < shown; ++i)
      list.push_back({{"label", names[order[i]]}, {"score", scores[order[i]]}});
    return {{"labels", std::move(list)}};
  }

  const ClassifyFlags& flags_;
  const models::Classifier classifier_;
};

struct RerankFlags {
  TextDeviceFlags on;
  std::string model, query, input;
  std::string format;
  std::size_t top = 10;
  std::int64_t max_length = 0;
  int threads = 0;
  bool json = false;
};

struct Passage {
  std::size_t line;
  std::string text;
  float score;
};

void print(const RerankFlags& flags, std::span<const Passage> passages, std::ostream& out) {
  for (const Passage& passage : passages)
    if (flags.json)
      out << Json{{"line", passage.line}, {"score", passage.score}, {"text", passage.text}}.dump(
                 -1, ' ', false, Json::error_handler_t::replace)
          << "\n";
    else
      out << fmt::format("{:9.4f}  {}\n", passage.score, printable(passage.text));
}

int rerank_texts(const RerankFlags& flags, Io& io) {
  compute::Workers workers(flags.threads);
  const models::Classifier classifier(
      flags.model, workers, flags.max_length > 0 ? std::optional(flags.max_length) : std::nullopt,
      placement_of(flags.on, workers));
  if (classifier.labels().names.size() != 1)
    throw Error(Code::unavailable, fmt::format("{} has {} outputs: a cross-encoder has one",
                                               flags.model, classifier.labels().names.size()));
  LineReader lines(flags.input, io.in);
  const TextFormat format = flags.format.empty()       ? format_of_texts(flags.input)
                            : flags.format == "ndjson" ? TextFormat::ndjson
                                                       : TextFormat::lines;
  constexpr std::size_t kBatch = 64, kMaxBatchBytes = 4 << 20;
  std::vector<Passage> best;
  std::vector<TextItem> batch;
  bool failed = false;
  std::size_t cut = 0, bytes = 0;
  const auto report = [&](const std::string& error) {
    failed = true;
    io.err << "sluice: " << printable(error) << "\n";
  };
  const auto score_batch = [&] {
    std::vector<models::Text> pairs;
    for (const TextItem& item : batch) pairs.push_back({flags.query, item.text});
    const models::Classified made = classifier.classify(pairs, true);
    cut += made.truncated.size();
    auto error = made.errors.begin();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (error != made.errors.end() && error->text == i)
        report(fmt::format("{}:{}: {}", lines.name(), batch[i].line, (error++)->reason));
      else
        best.push_back({batch[i].line, std::move(batch[i].text), made.scores[i]});
    }
    std::ranges::stable_sort(best, std::ranges::greater(), &Passage::score);
    if (best.size() > flags.top) best.resize(flags.top, Passage{});
    batch.clear();
    bytes = 0;
  };
  std::string_view line;
  while (lines.next(line)) {
    TextItem item = text_item(line, lines, format, false);
    bytes += item.text.size();
    if (item.error.empty())
      batch.push_back(std::move(item));
    else
      report(item.error);
    if (batch.size() == kBatch || bytes > kMaxBatchBytes) score_batch();
  }
  score_batch();
  print(flags, best, io.out);
  if (cut > 0)
    io.err << fmt::format("sluice: {} passages were cut to {} tokens (--max-length)\n", cut,
                          classifier.max_length());
  return failed ? 1 : 0;
}

}  // namespace

int classify(Args args, Io& io) {
  ClassifyFlags flags;
  CLI::App app("Classifies texts, or pairs of texts.", "sluice classify");
  add_text_task_flags(app, flags, "a JSON object a line; -: stdout (default)");
  app.add_flag("--pair", flags.pair,
               "two texts a line, with a tab between; .ndjson: text and pair");
  app.add_option("--top", flags.top, "labels of each text, the best first (1)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--all", flags.all, "all labels");
  app.add_flag("--logits", flags.logits, "the model's own numbers instead of probabilities");
  if (!parse(app, args, io, kClassifyExamples)) return 0;
  flags.model = model_folder(flags.model, io);
  flags.on.library_dirs = library_dirs(io);
  return ClassifyTask(flags).run_all(io);
}

int rerank(Args args, Io& io) {
  RerankFlags flags;
  CLI::App app("Sorts passages by their relevance for a query.", "sluice rerank");
  app.add_option("--model,-m", flags.model, "a folder with a cross-encoder and its tokenizer")
      ->type_name("FOLDER")
      ->required()
      ->check(not_empty("a model folder"));
  app.add_option("--query,-q", flags.query, "what is looked for")
      ->required()
      ->check(not_empty("a query"));
  app.add_option("--in,-i", flags.input,
                 "passages, one a line; .ndjson: objects with text; -: stdin")
      ->type_name("FILE")
      ->required()
      ->check(not_empty("a file, or - for stdin"));
  app.add_option("--format", flags.format, "of the input, whatever its name")
      ->check(CLI::IsMember({"lines", "ndjson"}));
  app.add_option("--top", flags.top, "so many of the best passages (10)")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--max-length", flags.max_length, "cut query and passage to so many tokens")
      ->check(CLI::Range(3, 1 << 20));
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print a JSON object a line");
  add_text_device_flags(app, flags.on);
  if (!parse(app, args, io, kRerankExamples)) return 0;
  flags.model = model_folder(flags.model, io);
  flags.on.library_dirs = library_dirs(io);
  return rerank_texts(flags, io);
}

}  // namespace sluice::cli
