#include "bindings/models.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "bindings/c_errors.h"
#include "engine/exec/cuda/bucket_program.h"
#include "engine/exec/cuda/cuda_program.h"
#include "models/classifier.h"
#include "models/embedder.h"
#include "models/tagger.h"

using namespace sluice;

namespace {

using bindings::catch_errors;

Json options_of(const char* options) {
  return options == nullptr ? Json::object()
                            : parse_json_object(options, "the options", R"({"max_length": 256})");
}

template <class T>
std::optional<T> option(const Json& options, const char* key) {
  const auto found = options.find(key);
  if (found == options.end() || found->is_null()) return std::nullopt;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    throw Error(Code::invalid_argument, std::string("the option ") + key + " is of another kind");
  }
}

void require_known(const Json& options, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : options.items())
    require(std::ranges::find(known, key) != known.end(), "there is no option " + key);
}

// Of the options device, precision and max_loss.
models::Placement placement_of(const Json& options, compute::Workers& workers) {
  const std::string device = option<std::string>(options, "device").value_or("cpu");
  const auto precision = option<std::string>(options, "precision").value_or("auto");
  require(device == "cpu" || device == "cuda", "device is cpu or cuda");
  if (device == "cuda")
    return models::placement_on(engine::make_cuda_context(engine::encoder_context_options({})),
                                precision, option<double>(options, "max_loss"), workers);
  require(precision == "auto" || precision == "fp32", "the CPU computes encoders in fp32");
  return {};
}

models::EmbedOptions embed_options(const Json& options, compute::Workers& workers) {
  require_known(options, {"max_length", "pooling", "normalize", "dimensions", "prompt",
                          "prompt_name", "device", "precision", "max_loss"});
  models::EmbedOptions made{.max_length = option<std::int64_t>(options, "max_length"),
                            .normalize = option<bool>(options, "normalize"),
                            .dimensions = option<std::size_t>(options, "dimensions"),
                            .prompt_name = option<std::string>(options, "prompt_name"),
                            .prompt = option<std::string>(options, "prompt")};
  if (const auto name = option<std::string>(options, "pooling")) {
    made.pooling = kernels::token_pooling_named(*name);
    require(made.pooling.has_value(), "pooling is mean, first, last or sum");
  }
  made.placement = placement_of(options, workers);
  return made;
}

Json classifier_options(const char* options) {
  Json given = options_of(options);
  require_known(given, {"max_length", "device", "precision", "max_loss"});
  return given;
}

std::vector<std::string_view> texts_of(const char* const* texts, const std::size_t* sizes,
                                       std::size_t count) {
  require(count == 0 || (texts != nullptr && sizes != nullptr), "a pointer is null");
  std::vector<std::string_view> all;
  for (std::size_t i = 0; i < count; ++i) {
    require(texts[i] != nullptr || sizes[i] == 0, "a text is null");
    all.emplace_back(texts[i], sizes[i]);
  }
  return all;
}

Json report_of(const std::vector<models::TextError>& errors,
               const std::vector<std::size_t>& truncated) {
  Json report{{"errors", Json::object()}, {"truncated", truncated}};
  for (const models::TextError& error : errors)
    report["errors"][std::to_string(error.text)] = error.reason;
  return report;
}

void give(const Json& report, char** to) {
  if (to == nullptr) return;
  const std::string text = report.dump(-1, ' ', false, Json::error_handler_t::replace);
  *to = static_cast<char*>(std::malloc(text.size() + 1));
  if (*to == nullptr) throw std::bad_alloc();
  std::memcpy(*to, text.c_str(), text.size() + 1);
}

const char* name_of(models::Problem problem) {
  switch (problem) {
    case models::Problem::single_label: return "single_label";
    case models::Problem::multi_label: return "multi_label";
    case models::Problem::regression: return "regression";
  }
  return "";
}

void require_model(const void* model) { require(model != nullptr, "a model is null"); }

void require_folder(const char* folder, int threads) {
  require(folder != nullptr && threads >= 0, "a folder and a number of threads are needed");
}

models::WordLabel word_label(const char* name) {
  const std::string_view words = name == nullptr ? "first" : name;
  if (words == "first") return models::WordLabel::first;
  if (words == "highest") return models::WordLabel::highest;
  require(words == "mean", "words is first, highest or mean");
  return models::WordLabel::mean;
}

Json entities_json(const std::vector<models::Entity>& entities) {
  Json list = Json::array();
  for (const models::Entity& entity : entities)
    list.push_back({{"type", entity.type},
                    {"text", entity.text},
                    {"begin", entity.begin},
                    {"end", entity.end},
                    {"score", entity.score}});
  return list;
}

}  // namespace

struct sluice_embedder {
  sluice_embedder(const char* folder, int threads, const Json& options)
      : workers(threads),
        model(models::Embedder::open(folder, workers, embed_options(options, workers))) {}

  compute::Workers workers;
  const models::Embedder model;
};

struct sluice_classifier {
  sluice_classifier(const char* folder, int threads, const Json& options)
      : workers(threads),
        model(folder, workers, option<std::int64_t>(options, "max_length"),
              placement_of(options, workers)) {}

  compute::Workers workers;
  const models::Classifier model;
  std::string labels{};
};

struct sluice_tagger {
  sluice_tagger(const char* folder, int threads, const Json& options)
      : workers(threads),
        model(folder, workers, option<std::int64_t>(options, "max_length"),
              placement_of(options, workers)) {}

  compute::Workers workers;
  const models::Tagger model;
};

const char* sluice_models_version(void) { return SLUICE_VERSION; }
void sluice_models_free(char* text) { std::free(text); }

// ---- vectors --------------------------------------------------------------------------------

sluice_embedder* sluice_embedder_open(const char* folder, const char* options, int threads,
                                      char* error, size_t error_size) {
  std::unique_ptr<sluice_embedder> made;
  catch_errors(error, error_size, [&] {
    require_folder(folder, threads);
    made = std::make_unique<sluice_embedder>(folder, threads, options_of(options));
  });
  return made.release();
}

void sluice_embedder_close(sluice_embedder* m) { delete m; }

size_t sluice_embedder_dimensions(const sluice_embedder* m) {
  return m == nullptr ? 0 : m->model.dimensions();
}

int sluice_embedder_run(const sluice_embedder* m, const char* const* texts, const size_t* sizes,
                        size_t count, float* out, char** report, char* error, size_t error_size) {
  return catch_errors(error, error_size, [&] {
    require_model(m);
    const auto all = texts_of(texts, sizes, count);
    const models::Embedded made =
        m->model.embed(all, std::span(out, all.size() * m->model.dimensions()));
    give(report_of(made.errors, made.truncated), report);
  });
}

// ---- labels ---------------------------------------------------------------------------------

sluice_classifier* sluice_classifier_open(const char* folder, const char* options, int threads,
                                          char* error, size_t error_size) {
  std::unique_ptr<sluice_classifier> made;
  catch_errors(error, error_size, [&] {
    require_folder(folder, threads);
    made = std::make_unique<sluice_classifier>(folder, threads, classifier_options(options));
    const models::Labels& labels = made->model.labels();
    made->labels = Json{{"names", labels.names}, {"problem", name_of(labels.problem)}}.dump(
        -1, ' ', false, Json::error_handler_t::replace);
  });
  return made.release();
}

void sluice_classifier_close(sluice_classifier* m) { delete m; }

const char* sluice_classifier_labels(const sluice_classifier* m) {
  return m == nullptr ? "" : m->labels.c_str();
}

int sluice_classifier_run(const sluice_classifier* m, const char* const* texts, const size_t* sizes,
                          const char* const* pairs, const size_t* pair_sizes, size_t count,
                          int logits, float* out, char** report, char* error, size_t error_size) {
  return catch_errors(error, error_size, [&] {
    require_model(m);
    const auto first = texts_of(texts, sizes, count);
    const auto second =
        pairs == nullptr ? std::vector<std::string_view>() : texts_of(pairs, pair_sizes, count);
    std::vector<models::Text> all;
    for (std::size_t i = 0; i < first.size(); ++i)
      all.push_back({first[i], pairs == nullptr ? std::nullopt : std::optional(second[i])});
    const models::Classified made = m->model.classify(all, logits != 0);
    std::ranges::copy(made.scores, out);
    give(report_of(made.errors, made.truncated), report);
  });
}

// ---- entities -------------------------------------------------------------------------------

sluice_tagger* sluice_tagger_open(const char* folder, const char* options, int threads, char* error,
                                  size_t error_size) {
  std::unique_ptr<sluice_tagger> made;
  catch_errors(error, error_size, [&] {
    require_folder(folder, threads);
    made = std::make_unique<sluice_tagger>(folder, threads, classifier_options(options));
  });
  return made.release();
}

void sluice_tagger_close(sluice_tagger* m) { delete m; }

int sluice_tagger_run(const sluice_tagger* m, const char* const* texts, const size_t* sizes,
                      size_t count, const char* words, char** report, char* error,
                      size_t error_size) {
  return catch_errors(error, error_size, [&] {
    require_model(m);
    std::vector<models::Text> all;
    for (const std::string_view text : texts_of(texts, sizes, count)) all.push_back({text});
    const models::Tagged made = m->model.tag(all, word_label(words));
    Json said = report_of(made.errors, made.truncated);
    said["entities"] = Json::array();
    for (const auto& entities : made.entities) said["entities"].push_back(entities_json(entities));
    give(said, report);
  });
}
