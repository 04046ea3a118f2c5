#include "text/id_encoder.h"

#include "text/encode_one.h"

namespace sluice::text {
namespace {

// Runs the whole pipeline and remembers words.
class WordEncoder final : public IdEncoder {
 public:
  explicit WordEncoder(const Pipeline& pipeline)
      : pipeline_(pipeline),
        tracks_(pipeline.pre_tokenizer && pipeline.pre_tokenizer->needs_spans()) {}

  void append(std::string_view text, IdScratch& scratch, std::size_t enough) const override {
    const std::size_t begin = scratch.ids.size();
    split_into_words(pipeline_, well_formed(text, scratch.well_formed), tracks_, scratch.pieces);
    for (const Piece& piece : scratch.pieces.pieces) {
      if (scratch.ids.size() - begin >= enough) return;
      if (piece.token)
        scratch.ids.push(*piece.token);
      else
        append_word(*pipeline_.model, scratch.pieces.view(piece), scratch,
                    [](std::string_view word) { return word; });
    }
  }

 private:
  const Pipeline& pipeline_;
  bool tracks_;
};

bool is_bert(const Pipeline& pipeline) {
  return dynamic_cast<const BertNormalizer*>(pipeline.normalizer.get()) != nullptr &&
         pipeline.pre_tokenizer && pipeline.pre_tokenizer->kind() == PreTokenizer::Kind::bert &&
         !pipeline.added.any(true);
}

bool is_byte_level(const Pipeline& pipeline) {
  return pipeline.pre_tokenizer &&
         pipeline.pre_tokenizer->kind() == PreTokenizer::Kind::byte_level &&
         (!pipeline.normalizer || pipeline.normalizer->keeps_ascii());
}

}  // namespace

std::unique_ptr<IdEncoder> make_id_encoder(const Pipeline& pipeline) {
  if (is_bert(pipeline)) return make_bert_id_encoder(pipeline);
  if (is_byte_level(pipeline)) return make_byte_level_id_encoder(pipeline);
  return std::make_unique<WordEncoder>(pipeline);
}

}  // namespace sluice::text
