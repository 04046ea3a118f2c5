#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_to_read.h"
#include "text/io/read.h"

namespace sluice::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;

std::string read_file(const fs::path& file) {
  auto text = read_named_file(file, kMaxFileBytes + 1);
  if (!text)
    throw Error(errno == ENOENT ? Code::not_found : Code::invalid_argument,
                fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
  require(text->size() <= kMaxFileBytes, fmt::format("{}: has more than 512 MiB", file.string()));
  return *std::move(text);
}

bool is_file(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none);
}

// What transformers writes beside vocab.txt.
BertOptions options_of(const fs::path& vocab) {
  BertOptions options;
  const auto config = vocab.parent_path() / "tokenizer_config.json";
  if (!is_file(config)) return options;
  const Json document = parse_json_object(read_file(config), config.string());
  const Field all(document, config.string(), true);
  options.lowercase = all.boolean("do_lower_case", true);
  options.strip_accents = all.boolean("strip_accents", options.lowercase);
  options.chinese_chars = all.boolean("tokenize_chinese_chars", true);
  return options;
}

Pipeline read_one(const fs::path& file) {
  const std::string text = read_file(file);
  const auto name = file.string();
  const auto extension = file.extension();
  if (extension == ".json") return parse_tokenizer_json(text, name);
  if (extension == ".txt") return parse_vocab_txt(text, name, options_of(file));
  if (extension == ".model" || extension == ".spm") return parse_sentencepiece(text, name);
  throw Error(Code::invalid_argument,
              name + ": is not tokenizer.json, vocab.txt or a SentencePiece .model");
}

}  // namespace

Pipeline read_pipeline(const fs::path& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return read_one(path);
  for (const char* name : {"tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model",
                           "tokenizer.model", "spm.model"})
    if (is_file(path / name)) return read_one(path / name);
  throw Error(Code::not_found,
              path.string() + ": has no tokenizer.json, vocab.txt or SentencePiece model");
}

}  // namespace sluice::text
