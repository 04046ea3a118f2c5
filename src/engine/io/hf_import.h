// Models that are no ONNX files: encoders in Hugging Face's folders.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/graph/graph.h"

namespace sluice::engine {

// The encoder in a folder with config.json and model.safetensors (or several such files and
// their index): bert (MiniLM too), roberta, xlm-roberta, camembert, distilbert. The graph is the
// one an export to ONNX gives: inputs input_ids, attention_mask and, where the model tells token
// types apart, token_type_ids, i64 [batch, sequence]; outputs last_hidden_state and, where it
// has the weights, pooler_output. Throws unavailable for other models, with the way out.
Graph import_hf(const std::filesystem::path& folder);

// What a model is besides its graph.
struct Imported {
  Graph graph;
  std::string format;                   // "ONNX, IR 8", "Hugging Face folder, bert"
  std::string producer;                 // "pytorch 2.3.0"; may be empty
  std::map<std::string, int> opsets{};  // by domain
};

// An .onnx file, a folder with a model.onnx, or one that import_hf takes. Throws not_found,
// or as the import does, with the path in front.
Imported import_file(const std::filesystem::path& path);
inline Graph import_model(const std::filesystem::path& path) { return import_file(path).graph; }

}  // namespace sluice::engine
