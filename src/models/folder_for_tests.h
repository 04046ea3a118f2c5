// A small BERT with random weights as a folder of transformers, for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "formats/safetensors/build_for_tests.h"

namespace sluice::models {

class FolderForTests {
 public:
  static constexpr std::int64_t kWidth = 16, kInner = 24, kPositions = 32;

  explicit FolderForTests(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\nlease\nper\ngpu\n:\n");
    write("config.json",
          R"({"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2,
              "num_attention_heads": 2, "intermediate_size": 24, "hidden_act": "gelu",
              "max_position_embeddings": 32, "type_vocab_size": 2})");
    write("model.safetensors", safetensors::file_of(weights()));
  }
  ~FolderForTests() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FolderForTests(const FolderForTests&) = delete;
  FolderForTests& operator=(const FolderForTests&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  Tensor random(const Shape& shape) {
    Tensor made(DType::f32, shape);
    for (float& x : made.values<float>()) x = normal_(engine_) * 0.4f;
    return made;
  }
  std::map<std::string, Tensor> weights() {
    std::map<std::string, Tensor> all;
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      all[name + ".weight"] = random({out, in});
      all[name + ".bias"] = random({out});
    };
    const auto norm = [&](const std::string& name) {
      all[name + ".weight"] = random({kWidth});
      all[name + ".bias"] = random({kWidth});
    };
    all["embeddings.word_embeddings.weight"] = random({10, kWidth});
    all["embeddings.position_embeddings.weight"] = random({kPositions, kWidth});
    all["embeddings.token_type_embeddings.weight"] = random({2, kWidth});
    norm("embeddings.LayerNorm");
    for (const std::string at : {"encoder.layer.0.", "encoder.layer.1."}) {
      for (const std::string part : {"self.query", "self.key", "self.value", "output.dense"})
        linear(at + "attention." + part, kWidth, kWidth);
      norm(at + "attention.output.LayerNorm");
      linear(at + "intermediate.dense", kWidth, kInner);
      linear(at + "output.dense", kInner, kWidth);
      norm(at + "output.LayerNorm");
    }
    return all;
  }

  std::filesystem::path path_;
  std::mt19937 engine_{5};
  std::normal_distribution<float> normal_;
};

}  // namespace sluice::models
