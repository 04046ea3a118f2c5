#include "engine/io/hf_import.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "engine/io/hf_folder.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
constexpr float kMasked = -3.4028234663852886e38f;

// The tensor names of one model family.
struct Family {
  std::string_view prefix;  // of all tensor names; omitted in models saved without a head
  std::string_view layers, query, key, value, out, out_norm, up, down, down_norm;
};
constexpr Family kBert{"bert.",
                       "encoder.layer.",
                       "attention.self.query",
                       "attention.self.key",
                       "attention.self.value",
                       "attention.output.dense",
                       "attention.output.LayerNorm",
                       "intermediate.dense",
                       "output.dense",
                       "output.LayerNorm"};
constexpr Family kRoberta{"roberta.", kBert.layers,   kBert.query, kBert.key,  kBert.value,
                          kBert.out,  kBert.out_norm, kBert.up,    kBert.down, kBert.down_norm};
constexpr Family kDistil{"distilbert.",      "transformer.layer.", "attention.q_lin",
                         "attention.k_lin",  "attention.v_lin",    "attention.out_lin",
                         "sa_layer_norm",    "ffn.lin1",           "ffn.lin2",
                         "output_layer_norm"};

struct Config {
  std::string type;
  Family family;
  std::int64_t hidden, layers, heads, inner, positions;
  std::int64_t token_types = 0;           // 0: the model has none
  std::optional<std::int64_t> padding{};  // roberta: the padding index, after which positions start
  std::string activation;
  float epsilon;
  bool distil = false, roberta = false;
  std::string architecture{};
};

// ---- weights ---------------------------------------------------------------------

// Transposes [rows, columns] in cache-sized tiles.
Tensor transposed(const Tensor& tensor) {
  const std::int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  Tensor result(DType::f32, Shape{columns, rows});
  const float* const from = tensor.values<float>().data();
  float* const to = result.values<float>().data();
  constexpr std::int64_t kSide = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kSide)
    for (std::int64_t c0 = 0; c0 < columns; c0 += kSide)
      for (std::int64_t r = r0; r < std::min(rows, r0 + kSide); ++r)
        for (std::int64_t c = c0; c < std::min(columns, c0 + kSide); ++c)
          to[c * rows + r] = from[r * columns + c];
  return result;
}

// ---- the graph -------------------------------------------------------------------

class Encoder {
 public:
  Encoder(const HfFolder& folder, Config config) : folder_(folder), config_(std::move(config)) {
    const std::string prefix(config_.family.prefix);
    if (folder_.has(prefix + "embeddings.word_embeddings.weight")) prefix_ = prefix;
  }

  Graph build() {
    graph_.name = config_.type;
    const ValueId ids = input("input_ids"), attention = input("attention_mask");
    ValueId x = embeddings(ids);
    const ValueId mask = mask_of(attention);
    for (std::int64_t i = 0; i < config_.layers; ++i) x = layer(i, x, mask);
    output(x, "last_hidden_state", {dim("batch"), dim("sequence"), dim(config_.hidden)});
    const bool pools = !config_.distil && folder_.has(prefix_ + "pooler.dense.weight");
    const ValueId pooled = pools ? pooler(x) : kNoValue;
    if (config_.architecture.ends_with("ForTokenClassification"))
      output(head("classifier", x), "logits", {dim("batch"), dim("sequence"), dim("labels")});
    if (config_.architecture.ends_with("ForSequenceClassification"))
      output(sequence_logits(x, pooled), "logits", {dim("batch"), dim("labels")});
    return std::move(graph_);
  }

 private:
  static Dim dim(std::string symbol) { return {.size = -1, .symbol = std::move(symbol)}; }
  static Dim dim(std::int64_t size) { return {.size = size, .symbol = {}}; }

  ValueId value(std::string name, Tensor constant = {}) {
    const DType dtype = constant.dtype();
    graph_.values.push_back(
        {.name = std::move(name), .dtype = dtype, .constant = std::move(constant)});
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  ValueId input(std::string name) {
    const ValueId id = value(std::move(name));
    graph_[id].dtype = DType::i64;
    graph_[id].dims = {dim("batch"), dim("sequence")};
    graph_.inputs.push_back(id);
    return id;
  }
  void output(ValueId id, std::string name, std::vector<Dim> dims) {
    graph_[id].name = std::move(name);
    graph_[id].dtype = DType::f32;
    graph_[id].dims = std::move(dims);
    graph_.outputs.push_back(id);
  }
  ValueId integers(std::vector<std::int64_t> list) {
    return value("", Tensor::of<std::int64_t>(std::span<const std::int64_t>(list)));
  }
  ValueId number(float x) { return value("", Tensor::of<float>(x)); }

  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const ValueId made = value(where_ + std::string(op));
    graph_.nodes.push_back({.name = where_ + std::string(op),
                            .op = std::string(op),
                            .domain = "",
                            .version = kHfOpset,
                            .attributes = std::move(attributes),
                            .inputs = std::move(inputs),
                            .outputs = {made}});
    return made;
  }
  ValueId add(std::string_view op, std::vector<ValueId> inputs, std::string_view attribute,
              Attributes::Any setting) {
    Attributes attributes;
    attributes.set(attribute, std::move(setting));
    return add(op, std::move(inputs), std::move(attributes));
  }

  ValueId weight(const std::string& name, const Shape& shape) {
    return value(name, folder_.tensor(prefix_ + name, shape));
  }
  ValueId linear(const std::string& name, ValueId x, std::int64_t in, std::int64_t out) {
    return full_linear(prefix_ + name, x, in, out);
  }
  ValueId full_linear(const std::string& name, ValueId x, std::int64_t in, std::int64_t out) {
    const Tensor by_output = folder_.tensor(name + ".weight", Shape{out, in});
    const ValueId matmul = add("MatMul", {x, value(name + ".weight", transposed(by_output))});
    return add("Add", {matmul, value(name + ".bias", folder_.tensor(name + ".bias", Shape{out}))});
  }
  ValueId norm(const std::string& name, ValueId x) {
    const bool old = folder_.has(prefix_ + name + ".gamma");  // TensorFlow names
    const Shape shape{config_.hidden};
    Attributes attributes;
    attributes.set("axis", std::int64_t{-1});
    attributes.set("epsilon", config_.epsilon);
    return add("LayerNormalization",
               {x, weight(name + (old ? ".gamma" : ".weight"), shape),
                weight(name + (old ? ".beta" : ".bias"), shape)},
               std::move(attributes));
  }
  ValueId activation(ValueId x) {
    const std::string& name = config_.activation;
    if (name == "gelu") return add("Gelu", {x});
    if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
      return add("Gelu", {x}, "approximate", std::string("tanh"));
    if (name == "relu") return add("Relu", {x});
    if (name == "tanh") return add("Tanh", {x});
    if (name == "silu" || name == "swish") return add("Mul", {x, add("Sigmoid", {x})});
    throw Error(Code::unavailable, "activation " + in_quotes(name) +
                                       " is not known (gelu, gelu_new, relu, silu, tanh are)");
  }

  ValueId embeddings(ValueId ids);
  ValueId positions(ValueId ids);
  ValueId mask_of(ValueId attention);
  ValueId by_head(ValueId x, std::vector<std::int64_t> order);
  ValueId attention(const std::string& at, ValueId x, ValueId mask);
  ValueId layer(std::int64_t i, ValueId x, ValueId mask);
  ValueId first_token(ValueId x);
  ValueId pooler(ValueId x);
  ValueId head(const std::string& name, ValueId x);
  ValueId sequence_logits(ValueId x, ValueId pooled);

  const HfFolder& folder_;
  Config config_;
  std::string prefix_, where_;
  Graph graph_{};
};

ValueId Encoder::embeddings(ValueId ids) {
  where_ = "embeddings/";
  const std::string words = "embeddings.word_embeddings.weight";
  const ValueId table = weight(words, Shape{folder_.rows(prefix_ + words), config_.hidden});
  ValueId x = add("Gather", {table, ids});
  if (config_.token_types > 0) {
    const ValueId types = weight("embeddings.token_type_embeddings.weight",
                                 Shape{config_.token_types, config_.hidden});
    // Exports have no token_type_ids input if there is only one type.
    const ValueId which = config_.token_types > 1 ? input("token_type_ids") : integers({0});
    x = add("Add", {x, add("Gather", {types, which})});
  }
  const ValueId position_table =
      weight("embeddings.position_embeddings.weight", Shape{config_.positions, config_.hidden});
  x = add("Add", {x, add("Gather", {position_table, positions(ids)})});
  return norm("embeddings.LayerNorm", x);
}

// Position ids 0, 1, 2, ...; for roberta, counted from padding + 1 without padding tokens.
ValueId Encoder::positions(ValueId ids) {
  if (!config_.padding) {
    const ValueId length =
        add("Gather", {add("Shape", {ids}), value("", Tensor::of<std::int64_t>(1))});
    return add("Range", {value("", Tensor::of<std::int64_t>(0)), length,
                         value("", Tensor::of<std::int64_t>(1))});
  }
  const ValueId padding = value("", Tensor::of<std::int64_t>(*config_.padding));
  const ValueId real = add("Cast", {add("Not", {add("Equal", {ids, padding})})}, "to",
                           static_cast<std::int64_t>(DType::i64));
  const ValueId count = add("CumSum", {real, value("", Tensor::of<std::int64_t>(1))});
  return add("Add", {add("Mul", {count, real}), padding});
}

// The attention bias: 0 where the mask is 1, the lowest float where it is 0.
ValueId Encoder::mask_of(ValueId attention) {
  where_ = "mask/";
  const ValueId wide = add("Unsqueeze", {attention, integers({1, 2})});
  const ValueId real = add("Cast", {wide}, "to", static_cast<std::int64_t>(DType::f32));
  return add("Mul", {add("Sub", {number(1), real}), number(kMasked)});
}

ValueId Encoder::by_head(ValueId x, std::vector<std::int64_t> order) {
  const std::int64_t size = config_.hidden / config_.heads;
  return add("Transpose", {add("Reshape", {x, integers({0, 0, config_.heads, size})})}, "perm",
             std::move(order));
}

ValueId Encoder::attention(const std::string& at, ValueId x, ValueId mask) {
  const Family& names = config_.family;
  const std::int64_t n = config_.hidden;
  const auto project = [&](std::string_view name) {
    return linear(at + std::string(name), x, n, n);
  };
  const ValueId query = by_head(project(names.query), {0, 2, 1, 3});
  const ValueId key = by_head(project(names.key), {0, 2, 3, 1});
  const ValueId content = by_head(project(names.value), {0, 2, 1, 3});
  const float root = std::sqrt(static_cast<float>(n / config_.heads));
  const ValueId scores = add("Div", {add("MatMul", {query, key}), number(root)});
  const ValueId shares = add("Softmax", {add("Add", {scores, mask})}, "axis", std::int64_t{-1});
  const ValueId mixed = add("Transpose", {add("MatMul", {shares, content})}, "perm",
                            Attributes::Integers{0, 2, 1, 3});
  const ValueId together = add("Reshape", {mixed, integers({0, 0, n})});
  return linear(at + std::string(names.out), together, n, n);
}

ValueId Encoder::layer(std::int64_t i, ValueId x, ValueId mask) {
  const Family& names = config_.family;
  const std::string at = std::string(names.layers) + std::to_string(i) + ".";
  where_ = "layer." + std::to_string(i) + "/";
  const ValueId attended =
      norm(at + std::string(names.out_norm), add("Add", {attention(at, x, mask), x}));
  const ValueId inner =
      activation(linear(at + std::string(names.up), attended, config_.hidden, config_.inner));
  const ValueId down = linear(at + std::string(names.down), inner, config_.inner, config_.hidden);
  return norm(at + std::string(names.down_norm), add("Add", {down, attended}));
}

ValueId Encoder::first_token(ValueId x) {
  return add("Gather", {x, value("", Tensor::of<std::int64_t>(0))}, "axis", std::int64_t{1});
}

ValueId Encoder::pooler(ValueId x) {
  where_ = "pooler/";
  const ValueId pooled =
      add("Tanh", {linear("pooler.dense", first_token(x), config_.hidden, config_.hidden)});
  output(pooled, "pooler_output", {dim("batch"), dim(config_.hidden)});
  return pooled;
}

// A layer with one output for each label.
ValueId Encoder::head(const std::string& name, ValueId x) {
  where_ = name + "/";
  return full_linear(name, x, config_.hidden, folder_.rows(name + ".weight"));
}

ValueId Encoder::sequence_logits(ValueId x, ValueId pooled) {
  where_ = "classifier/";
  if (config_.roberta) {
    const ValueId dense =
        full_linear("classifier.dense", first_token(x), config_.hidden, config_.hidden);
    return head("classifier.out_proj", add("Tanh", {dense}));
  }
  if (config_.distil) {
    const ValueId dense =
        full_linear("pre_classifier", first_token(x), config_.hidden, config_.hidden);
    return head("classifier", add("Relu", {dense}));
  }
  if (pooled == kNoValue)
    throw Error(Code::invalid_argument, "there is no tensor 'pooler.dense.weight'");
  return head("classifier", pooled);
}

// ---- config.json -----------------------------------------------------------------

constexpr std::int64_t kMax = 1 << 20;

[[noreturn]] void not_this_one(const std::string& what) {
  throw Error(Code::unavailable, what +
                                     ": export the model to ONNX instead (optimum-cli export "
                                     "onnx --model FOLDER OUT)");
}

Config config_of(const HfFolder& folder) {
  const std::string type = folder.text("model_type", "");
  const bool distil = type == "distilbert";
  const bool roberta = type == "roberta" || type == "xlm-roberta" || type == "camembert";
  if (!distil && !roberta && type != "bert")
    not_this_one("folders of model_type " + in_quotes(type) +
                 " are not read (bert, roberta, xlm-roberta, camembert and distilbert are)");
  if (folder.text("position_embedding_type", "absolute") != "absolute")
    not_this_one("relative positions are not read from folders");
  if (folder.flag("is_decoder") || folder.flag("add_cross_attention"))
    not_this_one("this is a decoder, and encoders are read from folders");
  Config config{.type = type,
                .family = distil    ? kDistil
                          : roberta ? kRoberta
                                    : kBert,
                .hidden = folder.integer(distil ? "dim" : "hidden_size", 1, kMax),
                .layers = folder.integer(distil ? "n_layers" : "num_hidden_layers", 1, 1000),
                .heads = folder.integer(distil ? "n_heads" : "num_attention_heads", 1, kMax),
                .inner = folder.integer(distil ? "hidden_dim" : "intermediate_size", 1, kMax),
                .positions = folder.integer("max_position_embeddings", 1, kMax),
                .activation = folder.text(distil ? "activation" : "hidden_act", "gelu"),
                .epsilon = static_cast<float>(folder.real("layer_norm_eps", 1e-12)),
                .distil = distil,
                .roberta = roberta,
                .architecture = folder.architecture()};
  if (!distil) config.token_types = folder.integer("type_vocab_size", 0, kMax, 2);
  if (roberta) config.padding = folder.integer("pad_token_id", 0, kMax, 1);
  require(config.hidden % config.heads == 0, "config.json: " + std::to_string(config.heads) +
                                                 " heads do not share a width of " +
                                                 std::to_string(config.hidden));
  return config;
}

}  // namespace

Graph import_hf(const fs::path& folder) {
  try {
    const HfFolder files(folder);
    return Encoder(files, config_of(files)).build();
  } catch (const Error& error) {
    throw Error(error.code(), folder.string() + ": " + std::string(error.reason()));
  }
}

}  // namespace sluice::engine
