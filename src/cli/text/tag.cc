// sluice tag: the entities in texts.
#include <CLI/CLI.hpp>

#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/model_names.h"
#include "cli/text/text_task.h"
#include "models/tagger.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kTagExamples =
    "  echo 'Ada Lovelace lived in London.' | sluice tag --model bert-base-NER --in -\n"
    "  sluice tag --model ner --in articles.ndjson --out entities.jsonl --words mean\n"
    "Offsets are in characters (code points). A model is a folder of ...ForTokenClassification, "
    "or\n"
    "one with a model.onnx whose output is logits.";

struct TagFlags : TextTaskFlags {
  std::string words = "first";
};

class TagTask final : public TextTask {
 public:
  explicit TagTask(const TagFlags& flags)
      : TextTask(flags),
        flags_(flags),
        tagger_(flags.model, workers(), max_length(), placement()) {}

 private:
  Batch run(std::span<const Item> items) override {
    std::vector<models::Text> texts;
    for (const Item& item : items) texts.push_back(item.text);
    const models::WordLabel rule = flags_.words == "mean"      ? models::WordLabel::mean
                                   : flags_.words == "highest" ? models::WordLabel::highest
                                                               : models::WordLabel::first;
    models::Tagged made = tagger_.tag(texts, rule);
    Batch batch{
        .answers = {}, .errors = std::move(made.errors), .truncated = made.truncated.size()};
    for (std::size_t i = 0; i < items.size(); ++i) {
      Json list = Json::array();
      for (const models::Entity& entity : made.entities[i])
        list.push_back({{"type", entity.type},
                        {"text", entity.text},
                        {"begin", entity.begin},
                        {"end", entity.end},
                        {"score", entity.score}});
      batch.answers.push_back(json_line(items[i].line, {{"entities", std::move(list)}}));
    }
    return batch;
  }
  std::int64_t longest() const override { return tagger_.max_length(); }
  Json options() const override { return {{"words", flags_.words}}; }

  const TagFlags& flags_;
  const models::Tagger tagger_;
};

}  // namespace

int tag(Args args, Io& io) {
  TagFlags flags;
  CLI::App app("Finds the entities in texts.", "sluice tag");
  add_text_task_flags(app, flags, "a JSON object a line; -: stdout (default)");
  app.add_option("--words", flags.words,
                 "how a word's tokens give its label: first (default), highest, mean")
      ->check(CLI::IsMember({"first", "highest", "mean"}));
  if (!parse(app, args, io, kTagExamples)) return 0;
  flags.model = model_folder(flags.model, io);
  flags.on.library_dirs = library_dirs(io);
  return TagTask(flags).run_all(io);
}

}  // namespace sluice::cli
