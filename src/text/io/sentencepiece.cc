// SentencePiece's ModelProto: 1 pieces {1 text, 2 score}, 2 trainer {3 kind, 35 byte fallback, 40
// unknown id}, 3 normalizer {2 map of characters}.
#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/onnx/wire.h"
#include "text/io/read.h"

namespace sluice::text {
namespace {

using onnx::Wire;

constexpr std::int64_t kUnigram = 1;
constexpr char32_t kSpaceMark = 0x2581;

struct SentencePiece {
  std::vector<UnigramPiece> pieces;
  std::int64_t kind = kUnigram, unknown = 0;
  bool byte_fallback = false;
  std::string_view charsmap;
};

UnigramPiece read_piece(std::string_view bytes, std::size_t index) {
  UnigramPiece piece;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) piece.text = fields.bytes();
    if (fields.number() == 2) piece.score = static_cast<double>(fields.real());
  }
  require(!first_invalid_utf8(piece.text), fmt::format("piece {} is not UTF-8", index));
  return piece;
}

void read_trainer(std::string_view bytes, SentencePiece& model) {
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 3) model.kind = fields.integer();
    if (fields.number() == 35) model.byte_fallback = fields.integer() != 0;
    if (fields.number() == 40) model.unknown = fields.integer();
  }
}

SentencePiece read_sentencepiece(std::string_view bytes) {
  SentencePiece model;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) {
      model.pieces.push_back(read_piece(fields.bytes(), model.pieces.size()));
    } else if (fields.number() == 2) {
      read_trainer(fields.bytes(), model);
    } else if (fields.number() == 3) {
      for (Wire normalizer(fields.bytes()); normalizer.next();)
        if (normalizer.number() == 2) model.charsmap = normalizer.bytes();
    }
  }
  require(model.kind == kUnigram,
          fmt::format("the model is of kind {}, and unigram (1) alone is supported", model.kind));
  require(model.unknown >= 0, "the id of the unknown token is negative");
  return model;
}

Pipeline pipeline_of(const SentencePiece& model) {
  Pipeline pipeline;
  std::vector<NormalizerPtr> normalizers;
  if (!model.charsmap.empty()) normalizers.push_back(make_charsmap(model.charsmap));
  normalizers.push_back(make_replace(Pattern::regex(" {2,}"), " "));
  pipeline.normalizer = make_sequence(std::move(normalizers));
  pipeline.pre_tokenizer = make_metaspace(kSpaceMark, PrependScheme::always, true);
  pipeline.decoder = make_metaspace_decoder(kSpaceMark, true);
  pipeline.model =
      make_unigram(model.pieces, static_cast<std::uint32_t>(model.unknown), model.byte_fallback);
  return pipeline;
}

}  // namespace

Pipeline parse_sentencepiece(std::string_view bytes, std::string_view name) {
  try {
    return pipeline_of(read_sentencepiece(bytes));
  } catch (const Error& e) {
    throw Error(Code::invalid_argument, fmt::format("{}: {}", name, e.reason()));
  }
}

}  // namespace sluice::text
