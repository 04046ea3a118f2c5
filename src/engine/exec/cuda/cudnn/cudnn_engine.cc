#include "engine/exec/cuda/cudnn/cudnn_engine.h"

#include <fmt/core.h>

#include <charconv>

namespace sluice::engine::cuda::cudnn {
namespace {

// The engine of a configuration, valid while the configuration exists.
BackendDescriptor engine_of(const Library& library, const BackendDescriptor& config) {
  BackendDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  library.check(library.get_attribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
                "an engine");
  return engine;
}

// The descriptors of `kind` in a list attribute of `of`.
std::vector<BackendDescriptor> descriptors_of(const Library& library, const BackendDescriptor& of,
                                              cudnnBackendAttributeName_t what,
                                              cudnnBackendDescriptorType_t kind) {
  std::vector<BackendDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  const std::size_t count = of.count(what, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (std::size_t i = 0; i < count; ++i) {
    descriptors.emplace_back(library, kind);
    raw.push_back(descriptors.back().get());
  }
  std::int64_t found = 0;
  if (count > 0)
    library.check(library.get_attribute(of.get(), what, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        static_cast<std::int64_t>(count), &found, raw.data()),
                  "a list of descriptors");
  while (descriptors.size() > static_cast<std::size_t>(found)) descriptors.pop_back();
  return descriptors;
}

std::int64_t number(const BackendDescriptor& descriptor, cudnnBackendAttributeName_t what,
                    cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64) {
  if (type == CUDNN_TYPE_KNOB_TYPE) return descriptor.list<int>(what, type, 1).at(0);
  return descriptor.list<std::int64_t>(what, type, 1).at(0);
}

std::string index_and_knobs(const Library& library, const BackendDescriptor& config) {
  std::string text =
      std::to_string(number(engine_of(library, config), CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  for (const BackendDescriptor& knob :
       descriptors_of(library, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                      CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR))
    text +=
        fmt::format(" {}={}", number(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE),
                    number(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  return text;
}

// The result of `read`, or an empty one if cuDNN does not support it.
template <class Read>
auto attempt(Read&& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return {};
  }
}

std::optional<Engine> engine_of_plan(std::optional<BackendDescriptor> config,
                                     BackendDescriptor plan, std::size_t max_workspace) {
  const std::int64_t scratch = number(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (scratch < 0 || static_cast<std::size_t>(scratch) > max_workspace) return std::nullopt;
  return Engine{std::move(config), std::move(plan), static_cast<std::size_t>(scratch)};
}

std::optional<Engine> from_json(const Library& library, std::string_view json,
                                std::size_t max_workspace) {
  return attempt([&]() -> std::optional<Engine> {
    BackendDescriptor plan(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library.builder)
        .set_list(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json)
        .finish("a stored plan");
    return engine_of_plan(std::nullopt, std::move(plan), max_workspace);
  });
}

// Parses "28 4=2 7=0" to 28, 4, 2, 7, 0. Empty if the text has another format.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next < end && *next != ' ' && *next != '=')) return {};
    numbers.push_back(value);
    at = next + 1;
  }
  if (numbers.size() % 2 == 0) numbers.clear();
  return numbers;
}

std::optional<Engine> from_numbers(const Library& library, std::string_view text,
                                   const GraphMaker& graph, std::size_t max_workspace) {
  const std::vector<std::int64_t> numbers = numbers_in(text);
  if (numbers.empty()) return std::nullopt;
  return attempt([&]() -> std::optional<Engine> {
    BackendDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph())
        .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, numbers[0])
        .finish("a stored engine");
    std::vector<BackendDescriptor> knobs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::size_t i = 1; i < numbers.size(); i += 2) {
      knobs.emplace_back(library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
      knobs.back()
          .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, static_cast<int>(numbers[i]))
          .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, numbers[i + 1])
          .finish("a stored knob");
      raw.push_back(knobs.back().get());
    }
    BackendDescriptor config(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (!raw.empty())
      config.set_list(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
    config.finish("the knobs of a stored engine");
    return make_engine(library, std::move(config), max_workspace);
  });
}

}  // namespace

std::vector<BackendDescriptor> engine_configs(const Library& library,
                                              const BackendDescriptor& graph,
                                              cudnnBackendHeurMode_t mode) {
  BackendDescriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode)
      .finish("the engine heuristics");
  return descriptors_of(library, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

bool is_acceptable(const Library& library, const BackendDescriptor& config, bool full_f32) {
  const BackendDescriptor engine = engine_of(library, config);
  for (const cudnnBackendNumericalNote_t note : engine.list<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16)) {
    if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) continue;
    const bool reduced = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                         note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (!reduced || full_f32) return false;
  }
  return true;
}

std::optional<Engine> make_engine(const Library& library, BackendDescriptor config,
                                  std::size_t max_workspace) {
  return attempt([&]() -> std::optional<Engine> {
    BackendDescriptor plan(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library.builder)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
        .finish("a plan");
    return engine_of_plan(std::move(config), std::move(plan), max_workspace);
  });
}

std::string serialize(const Library& library, const Engine& engine, std::size_t max_workspace) {
  std::string text = attempt([&] { return index_and_knobs(library, engine.config.value()); });
  const std::string json = attempt([&] {
    const std::size_t size =
        engine.plan.count(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR);
    const auto characters = engine.plan.list<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                   CUDNN_TYPE_CHAR, size);
    return std::string(characters.begin(), characters.end());
  });
  if (!json.empty() && from_json(library, json, max_workspace)) text += "\n" + json;
  return text;
}

std::optional<Engine> read_engine(const Library& library, std::string_view text,
                                  const GraphMaker& graph, std::size_t max_workspace) {
  const std::size_t end = text.find('\n');
  if (end != text.npos)
    if (auto engine = from_json(library, text.substr(end + 1), max_workspace)) return engine;
  return from_numbers(library, text.substr(0, end), graph, max_workspace);
}

}  // namespace sluice::engine::cuda::cudnn
