// A document written as text piece by piece: what it takes goes as the text comes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/json.h"

namespace sluice {

class JsonText {
 public:
  explicit JsonText(Json json);  // may have packed lists (json_numbers.h)
  ~JsonText();
  JsonText(JsonText&&) noexcept;
  JsonText& operator=(JsonText&&) noexcept;

  // Appends `bytes` more of the text that unpacked(json).dump() would give, some 32 beyond at most
  // whatever the document has, and returns whether there are more. Packed lists are freed when
  // they are written.
  bool next(std::string& out, std::size_t bytes);

  // About the bytes of the whole text, before the first piece.
  std::size_t size() const;
  // About the bytes that the document takes, before the first piece.
  std::size_t memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The whole text.
std::string to_text(JsonText text);

}  // namespace sluice
