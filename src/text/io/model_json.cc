// The models and post-processors of tokenizer.json.
#include <fmt/format.h>

#include "base/printable.h"
#include "text/io/read.h"

namespace sluice::text {
namespace {

Vocabulary read_vocabulary(const Field& field) {
  Vocabulary vocabulary;
  if (!field.is_object()) field.refuse("must be an object of tokens and ids");
  for (const auto& [token, id] : field.json().get_ref<const Json::object_t&>()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMaxTokenId)
      field.member(token, id).integer(kMaxTokenId);  // says what is wrong
    vocabulary.add(token, id.get<std::uint32_t>());
  }
  return vocabulary;
}

std::pair<std::string, std::string> read_merge(const Field& field) {
  if (field.is_list()) {
    if (field.size() != 2) field.refuse("must have two tokens");
    return {field.item(0).text(), field.item(1).text()};
  }
  const std::string& line = field.text();
  const auto space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos)
    field.refuse("must be two tokens with a space between them");
  return {line.substr(0, space), line.substr(space + 1)};
}

MergePairs read_merges(const Field& field) {
  MergePairs merges;
  merges.reserve(field.size());
  field.each_item([&](const Field& item) {
    if (item.is_string() && item.text().starts_with("#version")) return;
    merges.push_back(read_merge(item));
  });
  return merges;
}

ModelPtr read_bpe(const Field& field) {
  BpeOptions options;
  if (const auto dropout = field.find("dropout"); dropout && dropout->number() != 0)
    dropout->refuse("makes ids random, which is not supported");
  if (const auto unknown = field.find("unk_token")) options.unknown = unknown->text();
  options.prefix = field.text("continuing_subword_prefix", "");
  options.suffix = field.text("end_of_word_suffix", "");
  options.fuse_unknown = field.boolean("fuse_unk", false);
  options.byte_fallback = field.boolean("byte_fallback", false);
  options.ignore_merges = field.boolean("ignore_merges", false);
  return make_bpe(read_vocabulary(field.at("vocab")), read_merges(field.at("merges")), options);
}

ModelPtr read_wordpiece(const Field& field) {
  WordPieceOptions options;
  options.unknown = field.text("unk_token", options.unknown);
  options.prefix = field.text("continuing_subword_prefix", options.prefix);
  if (const auto most = field.find("max_input_chars_per_word"))
    options.max_chars = most->integer(kMaxTokenId);
  return make_wordpiece(read_vocabulary(field.at("vocab")), options);
}

ModelPtr read_unigram(const Field& field) {
  std::vector<UnigramPiece> pieces;
  const Field vocabulary = field.at("vocab");
  pieces.reserve(vocabulary.size());
  if (!vocabulary.is_list()) vocabulary.refuse("must be a list of tokens and scores");
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const Json& item = vocabulary.json()[i];
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      vocabulary.item(i).refuse("must be a token and its score");
    pieces.push_back({item[0].get<std::string>(), item[1].get<double>()});
  }
  std::optional<std::uint32_t> unknown;
  if (const auto id = field.find("unk_id"))
    unknown = static_cast<std::uint32_t>(id->integer(kMaxTokenId));
  return make_unigram(pieces, unknown, field.boolean("byte_fallback", false));
}

// Files of before 2021 do not name the kind.
std::string model_type(const Field& field) {
  if (const auto type = field.find("type")) return type->text();
  if (field.find("merges")) return "BPE";
  return field.find("unk_id") ? "Unigram" : "WordPiece";
}

// What stands around a text is copied for each text and each part that overflows, so little may be
// said in a file to make much of it.
constexpr std::size_t kMaxSpecialBytes = 256;  // of one token
constexpr std::size_t kMaxSpecialIds = 4096, kMaxTemplatePieces = 256, kMaxRepeats = 4;

const std::string& read_special_text(const Field& field) {
  const std::string& text = field.text();
  if (text.size() > kMaxSpecialBytes)
    field.refuse(
        fmt::format("has {} bytes; a special token has at most {}", text.size(), kMaxSpecialBytes));
  return text;
}

SpecialToken read_pair(const Field& field) {
  return {read_special_text(field.item(0)),
          static_cast<std::uint32_t>(field.item(1).integer(kMaxTokenId))};
}

OffsetTrim read_trim(const Field& field) {
  return {field.boolean("trim_offsets", true), field.boolean("add_prefix_space", true)};
}

std::vector<SpecialToken> read_special(const Field& field) {
  std::vector<SpecialToken> tokens;
  const Field ids = field.at("ids"), texts = field.at("tokens");
  if (ids.size() != texts.size()) field.refuse("has not as many ids as tokens");
  if (ids.size() > kMaxSpecialIds)
    ids.refuse(fmt::format("has {} ids; shorten it to at most {}", ids.size(), kMaxSpecialIds));
  for (std::size_t i = 0; i < ids.size(); ++i)
    tokens.push_back({read_special_text(texts.item(i)),
                      static_cast<std::uint32_t>(ids.item(i).integer(kMaxTokenId))});
  return tokens;
}

TemplatePiece read_template_piece(const Field& item, const Field& special) {
  TemplatePiece piece;
  const auto sequence = item.find("Sequence");
  const Field kind = sequence ? *sequence : item.at("SpecialToken");
  piece.type_id = static_cast<std::uint32_t>(kind.at("type_id").integer(kMaxTokenId));
  const std::string& id = kind.at("id").text();
  piece.is_text = sequence.has_value();
  if (!piece.is_text)
    piece.special = read_special(special.at(id));
  else if (id == "A" || id == "B")
    piece.text = id == "B" ? 1 : 0;
  else
    kind.at("id").refuse("must be A or B");
  return piece;
}

Template read_template(const Field& field, const Field& special) {
  Template pieces;
  std::size_t ids = 0, uses[2] = {};
  if (field.is_list() && field.size() > kMaxTemplatePieces)
    field.refuse(
        fmt::format("has {} pieces; shorten it to at most {}", field.size(), kMaxTemplatePieces));
  field.each_item([&](const Field& item) {
    pieces.push_back(read_template_piece(item, special));
    const TemplatePiece& piece = pieces.back();
    ids += piece.special.size();
    if (ids > kMaxSpecialIds)
      field.refuse(fmt::format("adds more than {} special tokens; remove some", kMaxSpecialIds));
    if (piece.is_text && ++uses[piece.text] > kMaxRepeats)
      item.refuse(fmt::format("uses a text again, more than {} times; remove it", kMaxRepeats));
  });
  return pieces;
}

}  // namespace

ModelPtr read_model(const Field& field) {
  const std::string type = model_type(field);
  return field.with_place([&]() -> ModelPtr {
    if (type == "WordPiece") return read_wordpiece(field);
    if (type == "BPE") return read_bpe(field);
    if (type == "Unigram") return read_unigram(field);
    if (type == "WordLevel")
      return make_wordlevel(read_vocabulary(field.at("vocab")), field.text("unk_token", "<unk>"));
    throw Error(Code::invalid_argument, "the type " + in_quotes(type) + " is not supported");
  });
}

ProcessorPtr read_processor(const Field& field) {
  const std::string& type = field.at("type").text();
  if (type == "TemplateProcessing") {
    const Field special = field.at("special_tokens");
    return make_template(read_template(field.at("single"), special),
                         read_template(field.at("pair"), special));
  }
  if (type == "BertProcessing")
    return make_bert_processor(read_pair(field.at("cls")), read_pair(field.at("sep")));
  if (type == "RobertaProcessing")
    return make_roberta_processor(read_pair(field.at("cls")), read_pair(field.at("sep")),
                                  read_trim(field));
  if (type == "ByteLevel") return make_byte_level_processor(read_trim(field));
  if (type != "Sequence") field.at("type").refuse(in_quotes(type) + " is not supported");
  std::vector<ProcessorPtr> parts;
  field.at("processors").each_item([&](const Field& item) {
    parts.push_back(read_processor(item));
  });
  return make_processor_sequence(std::move(parts));
}

}  // namespace sluice::text
