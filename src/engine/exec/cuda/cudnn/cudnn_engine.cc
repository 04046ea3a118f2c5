#include "engine/exec/cuda/cudnn/cudnn_engine.h"

#include <fmt/core.h>

#include <charconv>

namespace sluice::engine::cuda::dnn {
namespace {

// The engine of a configuration. It is the configuration's own: valid no longer than that.
Thing engine_of(const Library& library, const Thing& config) {
  Thing engine(library, Kind::engine);
  Descriptor raw = engine.get();
  std::int64_t count = 0;
  library.check(library.get_attribute(config.get(), Attribute::engine_config_engine,
                                      Type::descriptor, 1, &count, &raw),
                "an engine");
  return engine;
}

// Descriptors of `kind` that `of` has in a list.
std::vector<Thing> things_of(const Library& library, const Thing& of, Attribute what, Kind kind) {
  std::vector<Thing> things;
  std::vector<Descriptor> raw;
  const std::size_t count = of.count(what, Type::descriptor);
  for (std::size_t i = 0; i < count; ++i) {
    things.emplace_back(library, kind);
    raw.push_back(things.back().get());
  }
  std::int64_t found = 0;
  if (count > 0)
    library.check(library.get_attribute(of.get(), what, Type::descriptor,
                                        static_cast<std::int64_t>(count), &found, raw.data()),
                  "a list of descriptors");
  while (things.size() > static_cast<std::size_t>(found)) things.pop_back();
  return things;
}

std::int64_t number(const Thing& thing, Attribute what, Type type = Type::int64) {
  if (type == Type::knob_type) return thing.list<int>(what, type, 1).at(0);
  return thing.list<std::int64_t>(what, type, 1).at(0);
}

std::string numbers_of(const Library& library, const Thing& config) {
  std::string text = std::to_string(number(engine_of(library, config), Attribute::engine_index));
  for (const Thing& knob :
       things_of(library, config, Attribute::engine_config_knobs, Kind::knob_choice))
    text += fmt::format(" {}={}", number(knob, Attribute::knob_type, Type::knob_type),
                        number(knob, Attribute::knob_value));
  return text;
}

// What `read` makes, or none where cuDNN refuses.
template <class Read>
auto attempt(Read&& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return {};
  }
}

std::optional<Engine> finished(std::optional<Thing> config, Thing plan, std::size_t most) {
  const std::int64_t scratch = number(plan, Attribute::plan_workspace);
  if (scratch < 0 || static_cast<std::size_t>(scratch) > most) return std::nullopt;
  return Engine{std::move(config), std::move(plan), static_cast<std::size_t>(scratch)};
}

std::optional<Engine> from_json(const Library& library, std::string_view json, std::size_t most) {
  return attempt([&]() -> std::optional<Engine> {
    Thing plan(library, Kind::execution_plan);
    plan.set(Attribute::plan_handle, Type::handle, library.builder)
        .set_list(Attribute::plan_json, Type::character, json)
        .finish("a plan that was kept");
    return finished(std::nullopt, std::move(plan), most);
  });
}

// The numbers of "28 4=2 7=0": 28, 4, 2, 7, 0. Empty where it is anything else.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (behind < end && *behind != ' ' && *behind != '=')) return {};
    numbers.push_back(value);
    at = behind + 1;
  }
  if (numbers.size() % 2 == 0) numbers.clear();
  return numbers;
}

std::optional<Engine> from_numbers(const Library& library, std::string_view text,
                                   const GraphMaker& graph, std::size_t most) {
  const std::vector<std::int64_t> numbers = numbers_in(text);
  if (numbers.empty()) return std::nullopt;
  return attempt([&]() -> std::optional<Engine> {
    Thing engine(library, Kind::engine);
    engine.set(Attribute::engine_graph, graph())
        .set(Attribute::engine_index, Type::int64, numbers[0])
        .finish("an engine that was kept");
    std::vector<Thing> knobs;
    std::vector<Descriptor> raw;
    for (std::size_t i = 1; i < numbers.size(); i += 2) {
      knobs.emplace_back(library, Kind::knob_choice);
      knobs.back()
          .set(Attribute::knob_type, Type::knob_type, static_cast<int>(numbers[i]))
          .set(Attribute::knob_value, Type::int64, numbers[i + 1])
          .finish("a knob that was kept");
      raw.push_back(knobs.back().get());
    }
    Thing config(library, Kind::engine_config);
    config.set(Attribute::engine_config_engine, engine);
    if (!raw.empty()) config.set_list(Attribute::engine_config_knobs, Type::descriptor, raw);
    config.finish("an engine's knobs that were kept");
    return make_engine(library, std::move(config), most);
  });
}

}  // namespace

std::vector<Thing> proposals(const Library& library, const Thing& graph, HeuristicsMode mode) {
  Thing heuristics(library, Kind::heuristics);
  heuristics.set(Attribute::heuristics_graph, graph)
      .set(Attribute::heuristics_mode, Type::heuristics_mode, mode)
      .finish("the search for engines");
  return things_of(library, heuristics, Attribute::heuristics_results, Kind::engine_config);
}

bool keeps_promises(const Library& library, const Thing& config, bool full_f32) {
  const Thing engine = engine_of(library, config);
  for (const Note note :
       engine.list<Note>(Attribute::engine_numerical_note, Type::numerical_note, 16)) {
    if (note == Note::strict_nan) continue;
    const bool narrow = note == Note::tensor_core || note == Note::down_convert_inputs;
    if (!narrow || full_f32) return false;
  }
  return true;
}

std::optional<Engine> make_engine(const Library& library, Thing config, std::size_t most) {
  return attempt([&]() -> std::optional<Engine> {
    Thing plan(library, Kind::execution_plan);
    plan.set(Attribute::plan_handle, Type::handle, library.builder)
        .set(Attribute::plan_engine_config, config)
        .finish("a plan");
    return finished(std::move(config), std::move(plan), most);
  });
}

std::string written(const Library& library, const Engine& engine, std::size_t most) {
  std::string text = attempt([&] { return numbers_of(library, engine.config.value()); });
  const std::string json = attempt([&] {
    const std::size_t size = engine.plan.count(Attribute::plan_json, Type::character);
    const auto letters = engine.plan.list<char>(Attribute::plan_json, Type::character, size);
    return std::string(letters.begin(), letters.end());
  });
  if (!json.empty() && from_json(library, json, most)) text += "\n" + json;
  return text;
}

std::optional<Engine> read_engine(const Library& library, std::string_view text,
                                  const GraphMaker& graph, std::size_t most) {
  const std::size_t end = text.find('\n');
  if (end != text.npos)
    if (auto engine = from_json(library, text.substr(end + 1), most)) return engine;
  return from_numbers(library, text.substr(0, end), graph, most);
}

}  // namespace sluice::engine::cuda::dnn
