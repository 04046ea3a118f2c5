#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/utf8.h"
#include "text/decode/decoder.h"
#include "text/normalize/normalizer.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

template <class Apply>
class DecodeFunction final : public Decoder {
 public:
  explicit DecodeFunction(Apply function) : apply_(std::move(function)) {}
  void apply(Tokens& tokens, std::size_t most) const override {
    if constexpr (std::is_invocable_v<Apply, Tokens&, std::size_t>)
      apply_(tokens, most);
    else
      apply_(tokens);
  }

 private:
  Apply apply_;
};

template <class Apply>
DecoderPtr make_decoder(Apply apply) {
  return std::make_shared<DecodeFunction<Apply>>(std::move(apply));
}

void replace_text(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (auto at = text.find(from); at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = out.append(text, done);
}

// Spaces that English does not write.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_text(text, from, to);
}

std::optional<unsigned char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const auto digits = token.substr(3, 2);
  const auto read = std::from_chars(digits.data(), digits.data() + 2, value, 16);
  if (read.ec != std::errc() || read.ptr != digits.data() + 2) return std::nullopt;
  return static_cast<unsigned char>(value);
}

void join_bytes(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (first_invalid_utf8(bytes))
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    else
      out.push_back(bytes);
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += static_cast<char>(*byte);
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

// The bytes that a token's characters stand for; the token itself when one stands for none.
std::string bytes_of(const std::string& token) {
  std::string bytes;
  bool all = true;
  for_each_code_point(token, [&](char32_t c, std::size_t, std::size_t) {
    const int byte = byte_of_character(c);
    all = all && byte >= 0;
    bytes += static_cast<char>(byte);
  });
  return all ? bytes : token;
}

void decode_bytes(Tokens& tokens) {
  std::string bytes, store;
  for (const auto& token : tokens) bytes += bytes_of(token);
  tokens = {std::string(well_formed(bytes, store))};
}

std::string metaspace_text(const std::string& token, char32_t replacement, bool drops) {
  std::string text;
  for_each_code_point(token, [&](char32_t c, std::size_t begin, std::size_t end) {
    if (c != replacement)
      text.append(token, begin, end - begin);
    else if (!drops)
      text += ' ';
  });
  return text;
}

std::string stripped(const std::string& token, const std::string& content, std::size_t start,
                     std::size_t stop) {
  std::string_view text = token;
  for (; start > 0 && text.starts_with(content); --start) text.remove_prefix(content.size());
  for (; stop > 0 && text.ends_with(content); --stop) text.remove_suffix(content.size());
  return std::string(text);
}

std::size_t total_bytes(const Tokens& tokens) {
  std::size_t bytes = 0;
  for (const auto& token : tokens) bytes += token.size();
  return bytes;
}

}  // namespace

DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup) {
  return make_decoder([=](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0)
        tokens[i] =
            tokens[i].starts_with(prefix) ? tokens[i].substr(prefix.size()) : " " + tokens[i];
      if (cleanup) clean_up(tokens[i]);
    }
  });
}

DecoderPtr make_byte_level_decoder() { return make_decoder(decode_bytes); }

DecoderPtr make_metaspace_decoder(char32_t replacement, bool prepended) {
  return make_decoder([=](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = metaspace_text(tokens[i], replacement, i == 0 && prepended);
  });
}

DecoderPtr make_bpe_decoder(std::string suffix) {
  return make_decoder([=](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size() && !suffix.empty(); ++i)
      replace_text(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  });
}

DecoderPtr make_byte_fallback_decoder() { return make_decoder(join_bytes); }

DecoderPtr make_fuse_decoder() {
  return make_decoder([](Tokens& tokens) {
    std::string all;
    for (const auto& token : tokens) all += token;
    tokens = {all};
  });
}

DecoderPtr make_strip_decoder(char32_t content, std::size_t start, std::size_t stop) {
  std::string text;
  append_utf8(text, content);
  return make_decoder([=](Tokens& tokens) {
    for (auto& token : tokens) token = stripped(token, text, start, stop);
  });
}

DecoderPtr make_replace_decoder(Pattern pattern, std::string by) {
  return make_decoder(
      [pattern = std::move(pattern), by = std::move(by)](Tokens& tokens, std::size_t most) {
        std::vector<Match> matches;
        std::size_t made = 0;
        for (auto& token : tokens) {
          Normalized text;
          text.assign(token, false);
          text.most = most;
          matches.clear();
          pattern.find(token, matches);
          replace_all(text, matches, by);
          token = std::move(text.text);
          require_made(made += token.size(), most);
        }
      });
}

DecoderPtr make_decoder_sequence(std::vector<DecoderPtr> parts) {
  return make_decoder([parts = std::move(parts)](Tokens& tokens, std::size_t most) {
    for (const auto& part : parts) {
      part->apply(tokens, most);
      require_made(total_bytes(tokens), most);
    }
  });
}

}  // namespace sluice::text
