// Tokenizer files as pipelines. All throw not_found, or invalid_argument with file, field and
// reason. Files have at most 512 MiB.
#pragma once

#include <filesystem>
#include <string_view>

#include "text/io/field.h"
#include "text/io/pipeline.h"

namespace sluice::text {

// A folder, or one of the files below by its name and content.
Pipeline read_pipeline(const std::filesystem::path& path);

// `name` begins messages.
Pipeline parse_tokenizer_json(std::string_view text, std::string_view name);
// BERT's: a token a line.
Pipeline parse_vocab_txt(std::string_view text, std::string_view name, const BertOptions& options);
// A SentencePiece model of kind unigram, as `tokenizers` reads it (from_spm).
Pipeline parse_sentencepiece(std::string_view bytes, std::string_view name);

// Parts of tokenizer.json; null for null.
NormalizerPtr read_normalizer(const Field& field);
PreTokenizerPtr read_pre_tokenizer(const Field& field);
ModelPtr read_model(const Field& field);
ProcessorPtr read_processor(const Field& field);
DecoderPtr read_decoder(const Field& field);
Pattern read_pattern(const Field& field);  // {"String": ...} or {"Regex": ...}

}  // namespace sluice::text
