// Imports encoder folders and compares them with a plain reference encoder in double precision.
#include "engine/io/hf_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/error.h"
#include "engine/encoder_for_tests.h"
#include "engine/session/session.h"
#include "formats/safetensors/build_for_tests.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kWords = 30, kPositions = 16, kHidden = 8, kHeads = 2, kInner = 12,
                       kLayers = 2;
constexpr std::int64_t kBatch = 2, kLength = 5;

using Weights = std::map<std::string, Tensor>;
using Matrix = std::vector<std::vector<double>>;

struct Names {
  std::string prefix, layer, query, key, value, out, out_norm, up, down, down_norm;
};
const Names kBert{"bert.",
                  "encoder.layer.",
                  "attention.self.query",
                  "attention.self.key",
                  "attention.self.value",
                  "attention.output.dense",
                  "attention.output.LayerNorm",
                  "intermediate.dense",
                  "output.dense",
                  "output.LayerNorm"};
const Names kDistil{"distilbert.",     "transformer.layer.", "attention.q_lin", "attention.k_lin",
                    "attention.v_lin", "attention.out_lin",  "sa_layer_norm",   "ffn.lin1",
                    "ffn.lin2",        "output_layer_norm"};

class Random {
 public:
  Tensor tensor(const Shape& shape) {
    Tensor made(DType::f32, shape);
    for (float& x : made.values<float>()) x = normal_(engine_) * 0.3f;
    return made;
  }

 private:
  std::mt19937 engine_{7};
  std::normal_distribution<float> normal_;
};

Weights random_weights(const Names& names, std::int64_t types, bool pooler) {
  Random random;
  Weights weights;
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    weights[names.prefix + name + ".weight"] = random.tensor({out, in});
    weights[names.prefix + name + ".bias"] = random.tensor({out});
  };
  const auto norm = [&](const std::string& name) {
    weights[names.prefix + name + ".weight"] = random.tensor({kHidden});
    weights[names.prefix + name + ".bias"] = random.tensor({kHidden});
  };
  const auto table = [&](const std::string& name, std::int64_t rows) {
    weights[names.prefix + "embeddings." + name + ".weight"] = random.tensor({rows, kHidden});
  };
  table("word_embeddings", kWords);
  table("position_embeddings", kPositions);
  if (types > 0) table("token_type_embeddings", types);
  norm("embeddings.LayerNorm");
  for (std::int64_t i = 0; i < kLayers; ++i) {
    const std::string at = names.layer + std::to_string(i) + ".";
    for (const std::string& part : {names.query, names.key, names.value, names.out})
      linear(at + part, kHidden, kHidden);
    linear(at + names.up, kHidden, kInner);
    linear(at + names.down, kInner, kHidden);
    norm(at + names.out_norm);
    norm(at + names.down_norm);
  }
  if (pooler) linear("pooler.dense", kHidden, kHidden);
  return weights;
}

// ---- reference encoder -----------------------------------------------------------

class Plain {
 public:
  Plain(const Names& names, const Weights& weights) : names_(names), weights_(weights) {}

  // One sequence; `types` and `positions` are row indices for each token.
  Matrix encode(const std::vector<std::int64_t>& ids, const std::vector<std::int64_t>& types,
                const std::vector<std::int64_t>& positions, const std::vector<bool>& mask) const {
    Matrix x;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<double> row = embedding("word_embeddings", ids[i]);
      const auto position = embedding("position_embeddings", positions[i]);
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += position[c];
      if (!types.empty()) {
        const auto type = embedding("token_type_embeddings", types[i]);
        for (std::size_t c = 0; c < row.size(); ++c) row[c] += type[c];
      }
      x.push_back(row);
    }
    x = norm("embeddings.LayerNorm", x);
    for (std::int64_t i = 0; i < kLayers; ++i)
      x = layer(names_.layer + std::to_string(i) + ".", x, mask);
    return x;
  }

  Matrix linear(const std::string& name, const Matrix& x) const {
    const Tensor& w = at(name + ".weight");
    const auto weight = w.values<float>(), bias = at(name + ".bias").values<float>();
    const auto out = static_cast<std::size_t>(w.shape()[0]),
               in = static_cast<std::size_t>(w.shape()[1]);
    Matrix y(x.size(), std::vector<double>(out));
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t o = 0; o < out; ++o) {
        y[r][o] = static_cast<double>(bias[o]);
        for (std::size_t c = 0; c < in; ++c)
          y[r][o] += x[r][c] * static_cast<double>(weight[o * in + c]);
      }
    return y;
  }

 private:
  const Tensor& at(const std::string& name) const { return weights_.at(names_.prefix + name); }

  std::vector<double> embedding(const std::string& name, std::int64_t row) const {
    const auto all = at("embeddings." + name + ".weight").values<float>();
    const auto from = all.begin() + row * kHidden;
    return {from, from + kHidden};
  }

  Matrix norm(const std::string& name, Matrix x) const {
    const auto scale = at(name + ".weight").values<float>(),
               shift = at(name + ".bias").values<float>();
    for (auto& row : x) {
      double mean = 0, square = 0;
      for (const double v : row) mean += v / kHidden;
      for (const double v : row) square += (v - mean) * (v - mean) / kHidden;
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] = (row[c] - mean) / std::sqrt(square + 1e-12) * static_cast<double>(scale[c]) +
                 static_cast<double>(shift[c]);
    }
    return x;
  }

  static Matrix sum(Matrix a, const Matrix& b) {
    for (std::size_t r = 0; r < a.size(); ++r)
      for (std::size_t c = 0; c < a[r].size(); ++c) a[r][c] += b[r][c];
    return a;
  }

  Matrix attention(const std::string& at, const Matrix& x, const std::vector<bool>& mask) const {
    const Matrix q = linear(at + names_.query, x), k = linear(at + names_.key, x),
                 v = linear(at + names_.value, x);
    const std::size_t size = kHidden / kHeads;
    Matrix mixed(x.size(), std::vector<double>(kHidden, 0));
    for (std::size_t head = 0; head < kHeads; ++head)
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<double> share(x.size(), 0);
        double total = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
          if (!mask[j]) continue;
          double score = 0;
          for (std::size_t c = head * size; c < (head + 1) * size; ++c) score += q[i][c] * k[j][c];
          total += share[j] = std::exp(score / std::sqrt(static_cast<double>(size)));
        }
        for (std::size_t j = 0; j < x.size(); ++j)
          for (std::size_t c = head * size; c < (head + 1) * size; ++c)
            mixed[i][c] += share[j] / total * v[j][c];
      }
    return linear(at + names_.out, mixed);
  }

  Matrix layer(const std::string& at, const Matrix& x, const std::vector<bool>& mask) const {
    const Matrix attended = norm(at + names_.out_norm, sum(attention(at, x, mask), x));
    Matrix inner = linear(at + names_.up, attended);
    for (auto& row : inner)
      for (double& v : row) v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    return norm(at + names_.down_norm, sum(linear(at + names_.down, inner), attended));
  }

  const Names& names_;
  const Weights& weights_;
};

// ---- folders ---------------------------------------------------------------------

Tensor typed_zeros(const Shape& shape) {
  const Tensor made(DType::i64, shape);
  for (std::int64_t& x : made.values<std::int64_t>()) x = 0;
  return made;
}

class ImportHfTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void config(const std::string& type, const std::string& more = "") {
    write("config.json",
          type == "distilbert"
              ? R"({"model_type":"distilbert","dim":8,"n_layers":2,"n_heads":2,"hidden_dim":12,)"
                R"("max_position_embeddings":16,"activation":"gelu")" +
                    more + "}"
              : R"({"model_type":")" + type +
                    R"(","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,)"
                    R"("intermediate_size":12,"max_position_embeddings":16,"hidden_act":"gelu",)"
                    R"("layer_norm_eps":1e-12)" +
                    more + "}");
  }
  std::string refusal() {
    try {
      import_model(folder_);
    } catch (const Error& error) {
      return std::string(error.reason());
    }
    return "accepted";
  }

  static Tensor integers(std::initializer_list<std::int64_t> list) {
    return Tensor::of<std::int64_t>(std::span(list.begin(), list.size()))
        .reshaped({kBatch, kLength});
  }

  static void expect_near(const Tensor& got, const Matrix& want, std::size_t sequence,
                          const std::vector<bool>& mask) {
    ASSERT_EQ(got.shape(), (Shape{kBatch, kLength, kHidden}));
    for (std::size_t r = 0; r < want.size(); ++r)
      for (std::size_t c = 0; mask[r] && c < want[r].size(); ++c)
        EXPECT_NEAR(
            static_cast<double>(got.values<float>()[(sequence * want.size() + r) * kHidden + c]),
            want[r][c], 1e-5)
            << r << ", " << c;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("hf-test-" + std::to_string(::getpid()));
  const std::vector<std::int64_t> first_{3, 7, 1, 29, 4}, second_{5, 6, 2, 1, 1};
  const Tensor ids_ = integers({3, 7, 1, 29, 4, 5, 6, 2, 1, 1});
  const Tensor mask_ = integers({1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  const std::vector<bool> all_{true, true, true, true, true}, some_{true, true, true, false, false};
  const std::vector<std::int64_t> counted_{0, 1, 2, 3, 4};
};

TEST_F(ImportHfTest, BertMatchesItsReferenceFormulas) {
  const Weights weights = random_weights(kBert, 2, true);
  config("bert");
  write("model.safetensors", safetensors::file_of(weights));
  compute::Workers workers(1);
  const Session session(import_model(folder_), workers);
  const Graph& graph = session.graph();
  ASSERT_EQ(graph.inputs.size(), 3u);
  EXPECT_EQ(graph[graph.inputs[2]].name, "token_type_ids");
  const Tensor types = integers({0, 0, 1, 1, 1, 0, 0, 0, 0, 0});
  const auto out = session.run(std::vector<Datum>{ids_, mask_, types});
  ASSERT_EQ(out.size(), 2u);
  const Plain plain(kBert, weights);
  const Matrix first = plain.encode(first_, {0, 0, 1, 1, 1}, counted_, all_);
  expect_near(out[0].tensor, first, 0, all_);
  expect_near(out[0].tensor, plain.encode(second_, {0, 0, 0, 0, 0}, counted_, some_), 1, some_);
  const Matrix pooled = plain.linear("pooler.dense", {first[0]});
  for (std::size_t c = 0; c < kHidden; ++c)
    EXPECT_NEAR(static_cast<double>(out[1].tensor.values<float>()[c]), std::tanh(pooled[0][c]),
                1e-5);
}

TEST_F(ImportHfTest, RobertaPositionsStartAfterThePaddingIndex) {
  Names names = kBert;
  names.prefix = "roberta.";
  const Weights weights = random_weights(names, 1, false);
  config("roberta", R"(,"type_vocab_size":1,"pad_token_id":1)");
  write("model.safetensors", safetensors::file_of(weights));
  compute::Workers workers(1);
  const Session session(import_model(folder_), workers);
  ASSERT_EQ(session.graph().inputs.size(), 2u);
  const auto out = session.run(std::vector<Datum>{ids_, mask_});
  ASSERT_EQ(out.size(), 1u);
  const Plain plain(names, weights);
  // Token 1 is padding: its position is always 1, and it is not counted.
  expect_near(out[0].tensor, plain.encode(first_, {0, 0, 0, 0, 0}, {2, 3, 1, 4, 5}, all_), 0, all_);
  expect_near(out[0].tensor, plain.encode(second_, {0, 0, 0, 0, 0}, {2, 3, 4, 1, 1}, some_), 1,
              some_);
}

TEST_F(ImportHfTest, ShardedDistilBertWithoutPrefixGivesTheSameResult) {
  const Weights weights = random_weights(kDistil, 0, false);
  Weights one, two;
  for (const auto& [name, tensor] : weights) {
    const std::string bare = name.substr(kDistil.prefix.size());
    (bare < "f" ? one : two)[bare] = tensor;
  }
  config("distilbert");
  write("a.safetensors", safetensors::file_of(one));
  write("b.safetensors", safetensors::file_of(two));
  write("model.safetensors.index.json",
        R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"a.safetensors"}})");
  compute::Workers workers(1);
  const Session session(import_model(folder_), workers);
  const auto out = session.run(std::vector<Datum>{ids_, mask_});
  expect_near(out[0].tensor, Plain(kDistil, weights).encode(first_, {}, counted_, all_), 0, all_);
}

TEST_F(ImportHfTest, PaddingCanBeSkippedForAllFamilies) {
  for (const std::string type : {"bert", "roberta", "distilbert"}) {
    SCOPED_TRACE(type);
    Names names = type == "distilbert" ? kDistil : kBert;
    if (type == "roberta") names.prefix = "roberta.";
    write("model.safetensors",
          safetensors::file_of(random_weights(names, type == "distilbert" ? 0 : 1, false)));
    config(type, type == "distilbert" ? "" : R"(,"type_vocab_size":1,"pad_token_id":1)");
    compute::Workers workers(1);
    const Graph graph = import_model(folder_);
    const Session plain(graph, workers), packed(graph, workers, {.skip_padding = true});
    std::vector<Tensor> inputs = sequences({12, 5, 1, 7, 12, 3, 9, 2}, 12);
    for (std::int64_t& id : inputs[0].values<std::int64_t>()) id %= kWords;
    for (std::size_t i = inputs.size(); i < graph.inputs.size(); ++i)
      inputs.push_back(typed_zeros(inputs[0].shape()));
    EXPECT_GT(packed.ready(inputs).inputs.size(), inputs.size()) << packed.padding_kept();
    const std::vector<Datum> given(inputs.begin(), inputs.end());
    const Tensor got = packed.run(given)[0].tensor,
                 want = without_padding(plain.run(given)[0].tensor, inputs[1]);
    for (std::size_t i = 0; i < want.values<float>().size(); ++i)
      ASSERT_EQ(got.values<float>()[i], want.values<float>()[i]) << i;
  }
}

TEST_F(ImportHfTest, UnsupportedModelsAreRejectedWithAdvice) {
  config("mpnet");
  write("model.safetensors", safetensors::file_of({}));
  EXPECT_THAT(refusal(), HasSubstr("'mpnet' are not read (bert, roberta"));
  EXPECT_THAT(refusal(), HasSubstr("optimum-cli export onnx"));
  config("bert", R"(,"position_embedding_type":"relative_key")");
  EXPECT_THAT(refusal(), HasSubstr("relative positions"));
  config("bert", R"(,"is_decoder":true)");
  EXPECT_THAT(refusal(), HasSubstr("decoder"));
}

TEST_F(ImportHfTest, InconsistentTensorsAreNamedInErrors) {
  Weights weights = random_weights(kBert, 2, false);
  config("bert");
  EXPECT_THAT(refusal(), HasSubstr("has no model.safetensors"));
  weights["bert.encoder.layer.1.output.dense.bias"] = Tensor::of<float>(1);
  write("model.safetensors", safetensors::file_of(weights));
  EXPECT_THAT(refusal(), HasSubstr("'bert.encoder.layer.1.output.dense.bias' is of shape []; "
                                   "config.json makes it [8]"));
  weights.erase("bert.encoder.layer.1.output.dense.bias");
  write("model.safetensors", safetensors::file_of(weights));
  EXPECT_THAT(refusal(), HasSubstr("no tensor 'bert.encoder.layer.1.output.dense.bias'"));
  config("bert", R"(,"num_attention_heads":2)");
  EXPECT_THAT(refusal(), HasSubstr("given twice"));
  write("config.json", R"({"model_type":"bert","hidden_size":-4})");
  EXPECT_THAT(refusal(), HasSubstr("hidden_size must be an integer"));
}

TEST_F(ImportHfTest, IndexFilesCannotReferToOtherFolders) {
  config("bert");
  for (const std::string file : {"../secret", "/etc/passwd", "..", "", "a/b"}) {
    write("model.safetensors.index.json", R"({"weight_map":{"x":")" + file + "\"}}");
    EXPECT_THAT(refusal(), HasSubstr("outside of the folder")) << file;
  }
}

}  // namespace
}  // namespace sluice::engine
