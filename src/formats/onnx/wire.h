// Reads the fields of a Protocol Buffers message in place, without copies or allocations. Throws
// invalid_argument if the bytes are not a valid message.
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

  // Advances to the next field; false at the end.
  bool next();
  int number() const noexcept { return number_; }

  // The value of the field. Throws if the field has another wire type.
  std::int64_t integer() const;
  float real() const;
  std::string_view bytes() const;  // a string, a message, or packed numbers
  std::string_view name() const;   // printable UTF-8 text

  // Appends the values of a repeated field: one value, or a packed list.
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
