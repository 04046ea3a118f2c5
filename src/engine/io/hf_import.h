// Imports models: ONNX files and Hugging Face encoder folders.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/graph/graph.h"

namespace sluice::engine {

// Imports an encoder from a folder with config.json and model.safetensors (or several such files
// and their index): bert (also MiniLM), roberta, xlm-roberta, camembert, distilbert. The graph
// equals an export to ONNX: inputs input_ids, attention_mask and, if the model has token types,
// token_type_ids, i64 [batch, sequence]; outputs last_hidden_state, if the weights exist
// pooler_output, and "logits" of an architecture ...ForSequenceClassification [batch, labels] or
// ...ForTokenClassification [batch, sequence, labels]. Throws unavailable for other models, with
// advice.
Graph import_hf(const std::filesystem::path& folder);
inline constexpr int kHfOpset = 20;  // of that graph: the first with Gelu

// A graph with the metadata of its model.
struct Imported {
  Graph graph;
  std::string format;                   // "ONNX, IR 8", "Hugging Face folder, bert"
  std::string producer;                 // "pytorch 2.3.0"; may be empty
  std::map<std::string, int> opsets{};  // by domain
};

// Imports an .onnx file, a folder with a model.onnx, or a folder for import_hf. Throws not_found,
// or as the import does, prefixed with the path.
Imported import_file(const std::filesystem::path& path);
inline Graph import_model(const std::filesystem::path& path) { return import_file(path).graph; }

}  // namespace sluice::engine
