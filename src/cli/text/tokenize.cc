// sluice tokenize: texts to the ids of a tokenizer, and ids back to texts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/text/text_lines.h"
#include "text/tokenizer.h"

namespace sluice::cli {
namespace {

using text::BatchOptions;
using text::EncodeOptions;
using text::Encoding;
using text::Tokenizer;
using text::Truncation;

constexpr std::string_view kTokenizeExamples =
    "  echo 'GPUs are shared.' | sluice tokenize --model all-MiniLM-L6-v2 --in -\n"
    "  sluice tokenize --model tokenizer.json --in articles.ndjson --max-length 512 --json\n"
    "  sluice tokenize --model vocab.txt --in questions.tsv --pair --json --offsets\n"
    "  echo '101 14246 102' | sluice tokenize --model vocab.txt --in - --decode\n"
    "A model is a folder, tokenizer.json, vocab.txt, or a SentencePiece .model (unigram).";

struct TokenizeFlags {
  std::string model, input, format;
  bool pair = false, json = false, offsets = false, decode = false, plain = false;
  bool keep_special = false;
  std::size_t max_length = 0, stride = 0, threads = 0;
  std::string strategy = "longest_first", side = "right";
};

std::optional<Truncation> truncation_of(const TokenizeFlags& flags) {
  if (flags.max_length == 0) return std::nullopt;
  Truncation truncation{.max_length = flags.max_length, .stride = flags.stride};
  if (flags.strategy == "only_first") truncation.strategy = text::TruncationStrategy::only_first;
  if (flags.strategy == "only_second") truncation.strategy = text::TruncationStrategy::only_second;
  if (flags.side == "left") truncation.side = text::TruncationSide::left;
  return truncation;
}

Json offsets_json(const Encoding& encoding) {
  Json list = Json::array();
  for (const auto& span : encoding.offsets) list.push_back(Json::array({span.begin, span.end}));
  return list;
}

Json encoding_json(const Encoding& encoding, bool offsets) {
  Json words = Json::array();
  for (const auto& word : encoding.words) words.push_back(word ? Json(*word) : Json(nullptr));
  Json json{{"ids", encoding.ids},
            {"tokens", encoding.tokens},
            {"type_ids", encoding.type_ids},
            {"special_tokens_mask", encoding.special},
            {"word_ids", std::move(words)}};
  if (offsets) json["offsets"] = offsets_json(encoding);
  for (const Encoding& part : encoding.overflow)
    json["overflow"].push_back(encoding_json(part, offsets));
  return json;
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void append_ids(std::string& out, std::span<const std::uint32_t> ids) {
  char digits[16];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ' ';
    out.append(digits, std::to_chars(digits, digits + sizeof digits, ids[i]).ptr);
  }
}

// "19204:0-4 2024:5-8"
void append_ids_with_offsets(std::string& out, const Encoding& encoding) {
  for (std::size_t i = 0; i < encoding.size(); ++i)
    out += fmt::format("{}{}:{}-{}", i > 0 ? " " : "", encoding.ids[i], encoding.offsets[i].begin,
                       encoding.offsets[i].end);
}

class TokenizeRun {
 public:
  TokenizeRun(const TokenizeFlags& flags, Io& io)
      : flags_(flags),
        io_(io),
        tokenizer_(Tokenizer::open(flags.model)),
        lines_(flags.input, io.in),
        format_(flags.format.empty()       ? format_of_texts(flags.input)
                : flags.format == "ndjson" ? TextFormat::ndjson
                                           : TextFormat::lines) {}

  int run() {
    const bool in_batches = !flags_.pair && !flags_.json && !flags_.offsets && !flags_.decode;
    std::string_view line;
    while (lines_.next(line)) {
      if (flags_.decode) {
        decode(line);
        continue;
      }
      auto item = text_item(line, lines_, format_, flags_.pair);
      if (!in_batches) {
        encode(item);
        continue;
      }
      batch_bytes_ += item.text.size();
      batch_.push_back(std::move(item));
      if (batch_.size() >= kBatchTexts || batch_bytes_ >= kBatchBytes) encode_batch();
    }
    encode_batch();
    return failed_ ? 1 : 0;
  }

 private:
  static constexpr std::size_t kBatchTexts = 8192, kBatchBytes = std::size_t{16} << 20;

  void report(const TextItem& item) {
    failed_ = true;
    io_.err << "sluice: " << item.error << "\n";
    io_.out << (flags_.json ? line_of({{"line", item.line}, {"error", item.error}}) : "\n");
  }

  void encode(TextItem& item) {
    if (!item.error.empty()) return report(item);
    const EncodeOptions options{.add_special = !flags_.plain, .truncation = truncation_of(flags_)};
    try {
      const auto encoding = item.pair ? tokenizer_.encode_pair(item.text, *item.pair, options)
                                      : tokenizer_.encode(item.text, options);
      print(encoding);
    } catch (const Error& e) {
      item.error = fmt::format("{}:{}: {}", lines_.name(), item.line, e.reason());
      report(item);
    }
  }

  void print(const Encoding& encoding) {
    if (flags_.json) {
      io_.out << line_of(encoding_json(encoding, flags_.offsets));
      return;
    }
    std::string out;
    flags_.offsets ? append_ids_with_offsets(out, encoding) : append_ids(out, encoding.ids);
    io_.out << (out += '\n');
  }

  void encode_batch() {
    std::vector<std::string_view> texts;
    for (const auto& item : batch_) texts.push_back(item.text);
    const auto batch = tokenizer_.encode_batch(texts, {.add_special = !flags_.plain,
                                                       .truncation = truncation_of(flags_),
                                                       .threads = flags_.threads});
    std::string out;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (batch_[i].error.empty()) {
        append_ids(out, std::span(batch.ids).subspan(
                            batch.cu_seqlens[i], batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]));
        out += '\n';
        continue;
      }
      io_.out << out;
      out.clear();
      report(batch_[i]);
    }
    io_.out << out;
    batch_.clear();
    batch_bytes_ = 0;
  }

  // The numbers of a line, or of the field "ids" of its object.
  std::vector<std::uint32_t> ids_of(std::string_view line) const {
    std::vector<std::uint32_t> ids;
    if (format_ == TextFormat::ndjson) {
      const Json object = parse_json_object(line, "the line", R"({"ids": [101]})");
      const auto list = object.find("ids");
      require(list != object.end() && list->is_array(), "has no list ids");
      for (const Json& id : *list) {
        require(id.is_number_unsigned() && id.get<std::uint64_t>() <= UINT32_MAX,
                "the field ids has what is no id");
        ids.push_back(id.get<std::uint32_t>());
      }
      return ids;
    }
    while (!(line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()))).empty()) {
      std::uint32_t id = 0;
      const auto read = std::from_chars(line.data(), line.data() + line.size(), id);
      require(read.ec == std::errc(), "has what is no id");
      line.remove_prefix(static_cast<std::size_t>(read.ptr - line.data()));
      ids.push_back(id);
    }
    return ids;
  }

  void decode(std::string_view line) {
    try {
      const auto text = tokenizer_.decode(ids_of(line), !flags_.keep_special);
      io_.out << (flags_.json ? line_of({{"text", text}}) : text + "\n");
    } catch (const Error& e) {
      report({.line = lines_.number(),
              .text = {},
              .pair = {},
              .error = fmt::format("{}:{}: {}", lines_.name(), lines_.number(), e.reason())});
    }
  }

  const TokenizeFlags& flags_;
  Io& io_;
  Tokenizer tokenizer_;
  LineReader lines_;
  TextFormat format_;
  std::vector<TextItem> batch_;
  std::size_t batch_bytes_ = 0;
  bool failed_ = false;
};

void add_flags(CLI::App& app, TokenizeFlags& flags) {
  app.add_option("--model,-m", flags.model, "folder or file of the tokenizer")
      ->type_name("PATH")
      ->required()
      ->check(not_empty("a folder or a tokenizer file"));
  app.add_option("--in,-i", flags.input, "texts, one a line; .ndjson: objects with text; -: stdin")
      ->type_name("FILE")
      ->required()
      ->check(not_empty("a file, or - for stdin"));
  app.add_option("--format", flags.format, "of the input, whatever its name")
      ->check(CLI::IsMember({"lines", "ndjson"}));
  app.add_flag("--pair", flags.pair,
               "two texts a line, with a tab between; .ndjson: text and pair");
  app.add_option("--max-length", flags.max_length, "truncate to so many tokens, special ones too")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--stride", flags.stride, "with --max-length: tokens that the overflow repeats")
      ->check(CLI::Range(0, 1 << 24))
      ->needs("--max-length");
  app.add_option("--truncate", flags.strategy, "which of two texts (longest_first)")
      ->check(CLI::IsMember({"longest_first", "only_first", "only_second"}));
  app.add_option("--side", flags.side, "where tokens are cut off (right)")
      ->check(CLI::IsMember({"right", "left"}));
  app.add_flag("--no-special", flags.plain, "without the special tokens around a text");
  app.add_flag("--offsets", flags.offsets, "where each token is in the text, in characters");
  app.add_flag("--decode", flags.decode, "the other way: lines of ids to texts");
  app.add_flag("--keep-special", flags.keep_special, "with --decode: show special tokens")
      ->needs("--decode");
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json,
               "print a JSON object a line: tokens, type and word ids, overflow");
}

}  // namespace

int tokenize(Args args, Io& io) {
  TokenizeFlags flags;
  CLI::App app("Turns texts into the ids of a tokenizer, as Hugging Face tokenizers does.",
               "sluice tokenize");
  add_flags(app, flags);
  if (!parse(app, args, io, kTokenizeExamples)) return 0;
  return TokenizeRun(flags, io).run();
}

}  // namespace sluice::cli
