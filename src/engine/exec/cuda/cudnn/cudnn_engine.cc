#include "engine/exec/cuda/cudnn/cudnn_engine.h"

#include <fmt/core.h>

#include <charconv>

namespace sluice::engine::cuda::cudnn {
namespace {

// The engine of a configuration, valid while the configuration exists.
BackendDescriptor engine_of(const Library& library, const BackendDescriptor& config) {
  BackendDescriptor engine(library, Kind::engine);
  Descriptor raw = engine.get();
  std::int64_t count = 0;
  library.check(library.get_attribute(config.get(), Attribute::engine_config_engine,
                                      Type::descriptor, 1, &count, &raw),
                "an engine");
  return engine;
}

// The descriptors of `kind` in a list attribute of `of`.
std::vector<BackendDescriptor> descriptors_of(const Library& library, const BackendDescriptor& of,
                                              Attribute what, Kind kind) {
  std::vector<BackendDescriptor> descriptors;
  std::vector<Descriptor> raw;
  const std::size_t count = of.count(what, Type::descriptor);
  for (std::size_t i = 0; i < count; ++i) {
    descriptors.emplace_back(library, kind);
    raw.push_back(descriptors.back().get());
  }
  std::int64_t found = 0;
  if (count > 0)
    library.check(library.get_attribute(of.get(), what, Type::descriptor,
                                        static_cast<std::int64_t>(count), &found, raw.data()),
                  "a list of descriptors");
  while (descriptors.size() > static_cast<std::size_t>(found)) descriptors.pop_back();
  return descriptors;
}

std::int64_t number(const BackendDescriptor& descriptor, Attribute what, Type type = Type::int64) {
  if (type == Type::knob_type) return descriptor.list<int>(what, type, 1).at(0);
  return descriptor.list<std::int64_t>(what, type, 1).at(0);
}

std::string index_and_knobs(const Library& library, const BackendDescriptor& config) {
  std::string text = std::to_string(number(engine_of(library, config), Attribute::engine_index));
  for (const BackendDescriptor& knob :
       descriptors_of(library, config, Attribute::engine_config_knobs, Kind::knob_choice))
    text += fmt::format(" {}={}", number(knob, Attribute::knob_type, Type::knob_type),
                        number(knob, Attribute::knob_value));
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
  const std::int64_t scratch = number(plan, Attribute::plan_workspace);
  if (scratch < 0 || static_cast<std::size_t>(scratch) > max_workspace) return std::nullopt;
  return Engine{std::move(config), std::move(plan), static_cast<std::size_t>(scratch)};
}

std::optional<Engine> from_json(const Library& library, std::string_view json,
                                std::size_t max_workspace) {
  return attempt([&]() -> std::optional<Engine> {
    BackendDescriptor plan(library, Kind::execution_plan);
    plan.set(Attribute::plan_handle, Type::handle, library.builder)
        .set_list(Attribute::plan_json, Type::character, json)
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
    BackendDescriptor engine(library, Kind::engine);
    engine.set(Attribute::engine_graph, graph())
        .set(Attribute::engine_index, Type::int64, numbers[0])
        .finish("a stored engine");
    std::vector<BackendDescriptor> knobs;
    std::vector<Descriptor> raw;
    for (std::size_t i = 1; i < numbers.size(); i += 2) {
      knobs.emplace_back(library, Kind::knob_choice);
      knobs.back()
          .set(Attribute::knob_type, Type::knob_type, static_cast<int>(numbers[i]))
          .set(Attribute::knob_value, Type::int64, numbers[i + 1])
          .finish("a stored knob");
      raw.push_back(knobs.back().get());
    }
    BackendDescriptor config(library, Kind::engine_config);
    config.set(Attribute::engine_config_engine, engine);
    if (!raw.empty()) config.set_list(Attribute::engine_config_knobs, Type::descriptor, raw);
    config.finish("the knobs of a stored engine");
    return make_engine(library, std::move(config), max_workspace);
  });
}

}  // namespace

std::vector<BackendDescriptor> engine_configs(const Library& library,
                                              const BackendDescriptor& graph, HeuristicsMode mode) {
  BackendDescriptor heuristics(library, Kind::heuristics);
  heuristics.set(Attribute::heuristics_graph, graph)
      .set(Attribute::heuristics_mode, Type::heuristics_mode, mode)
      .finish("the engine heuristics");
  return descriptors_of(library, heuristics, Attribute::heuristics_results, Kind::engine_config);
}

bool is_acceptable(const Library& library, const BackendDescriptor& config, bool full_f32) {
  const BackendDescriptor engine = engine_of(library, config);
  for (const Note note :
       engine.list<Note>(Attribute::engine_numerical_note, Type::numerical_note, 16)) {
    if (note == Note::strict_nan) continue;
    const bool reduced = note == Note::tensor_core || note == Note::down_convert_inputs;
    if (!reduced || full_f32) return false;
  }
  return true;
}

std::optional<Engine> make_engine(const Library& library, BackendDescriptor config,
                                  std::size_t max_workspace) {
  return attempt([&]() -> std::optional<Engine> {
    BackendDescriptor plan(library, Kind::execution_plan);
    plan.set(Attribute::plan_handle, Type::handle, library.builder)
        .set(Attribute::plan_engine_config, config)
        .finish("a plan");
    return engine_of_plan(std::move(config), std::move(plan), max_workspace);
  });
}

std::string serialize(const Library& library, const Engine& engine, std::size_t max_workspace) {
  std::string text = attempt([&] { return index_and_knobs(library, engine.config.value()); });
  const std::string json = attempt([&] {
    const std::size_t size = engine.plan.count(Attribute::plan_json, Type::character);
    const auto characters = engine.plan.list<char>(Attribute::plan_json, Type::character, size);
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
