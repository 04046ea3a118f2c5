// The fields of a Protocol Buffers message, read where they lie: nothing is copied, and
// nothing is allocated on a file's word. Throws invalid_argument where the bytes are not a
// message.
//
//   for (Wire fields(bytes); fields.next();)
//     if (fields.number() == 7) graph = read_graph(fields.bytes());
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::onnx {

class Wire {
 public:
  explicit Wire(std::string_view message) : rest_(message) {}

  // To the next field; false at the end.
  bool next();
  int number() const noexcept { return number_; }

  // The field's value. Throws where the field is of another kind.
  std::int64_t integer() const;
  float real() const;
  std::string_view bytes() const;  // a string, a message, or packed numbers
  std::string_view name() const;   // text that can stand in a message: UTF-8, nothing unprintable

  // Adds what a repeated field holds here: one value, or many packed.
  void add_to(std::vector<std::int64_t>& list) const;
  void add_to(std::vector<float>& list) const;
  void add_to(std::vector<double>& list) const;

 private:
  enum class Kind { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void need(Kind kind) const;
  template <class T>
  void add_fixed(std::vector<T>& list, Kind single) const;

  std::string_view rest_;
  std::string_view bytes_;
  std::uint64_t number_value_ = 0;
  int number_ = 0;
  Kind kind_ = Kind::varint;
};

}  // namespace sluice::onnx
