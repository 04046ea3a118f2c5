// Parses the messages of an ONNX file. Field numbers are those of the format.
#include "base/error.h"
#include "formats/map.h"
#include "formats/onnx/parts.h"
#include "formats/onnx/wire.h"

namespace sluice::onnx {
namespace {

constexpr int kMaxNestedGraphs = 64;  // or types

// An empty message takes two bytes in the file and up to hundreds in memory. Messages of real
// models take less than 50 times their size.
constexpr std::size_t kMaxGrowth = 64, kFreeBytes = std::size_t{16} << 20;
constexpr std::size_t kGraphNodeBytes = 512;  // a node's copy in the graph of the engine

class Reader {
 public:
  Reader(Source& source, std::size_t file_bytes)
      : source_(source), free_bytes_(kFreeBytes + kMaxGrowth * file_bytes) {}

  void graph(std::string_view bytes, Graph& g) {
    const Deeper deeper(*this);
    for (Wire fields(bytes); fields.next();) {
      switch (fields.number()) {
        case 1: add(g.nodes, node(fields.bytes())); break;
        case 2: g.name = fields.name(); break;
        case 5: initializer(fields.bytes(), g); break;
        case 11: add(g.inputs, value_info(fields.bytes())); break;
        case 12: add(g.outputs, value_info(fields.bytes())); break;
        case 13: add(g.values, value_info(fields.bytes())); break;
        case 15: add(g.sparse_initializers, sparse(fields.bytes())); break;
        default: break;
      }
    }
  }

  Function function(std::string_view bytes) {
    charge(sizeof(Function));
    Function f;
    for (Wire fields(bytes); fields.next();) {
      switch (fields.number()) {
        case 1: f.name = fields.name(); break;
        case 4: f.inputs.push_back(fields.name()); break;
        case 5: f.outputs.push_back(fields.name()); break;
        case 6: f.attributes.push_back(fields.name()); break;
        case 7: add(f.nodes, node(fields.bytes())); break;
        case 9: opset(fields.bytes(), f.opsets); break;
        case 10: f.domain = fields.name(); break;
        case 11: add(f.defaults, attribute(fields.bytes())); break;
        case 13: f.overload = fields.name(); break;
        default: break;
      }
    }
    return f;
  }

  static void opset(std::string_view bytes, Opsets& opsets) {
    std::string_view domain;
    std::int64_t version = 0;
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) domain = fields.name();
      if (fields.number() == 2) version = fields.integer();
    }
    opsets[domain == "ai.onnx" ? "" : domain] = version;
  }

  Type type(std::string_view bytes) {
    const Deeper deeper(*this);
    Type t;
    for (Wire fields(bytes); fields.next();) {
      switch (fields.number()) {
        case 1: tensor_type(fields.bytes(), t); break;
        case 4: t.kind = Type::Kind::sequence, t.of = inner(fields.bytes()); break;
        case 5: t.kind = Type::Kind::map; break;
        case 7: t.kind = Type::Kind::opaque; break;
        case 8: tensor_type(fields.bytes(), t), t.kind = Type::Kind::sparse_tensor; break;
        case 9: t.kind = Type::Kind::optional, t.of = inner(fields.bytes()); break;
        default: break;
      }
    }
    return t;
  }

 private:
  struct Deeper {
    explicit Deeper(Reader& r) : reader(r) {
      require(++reader.depth_ <= kMaxNestedGraphs, "graphs or types nested more than 64 deep");
    }
    ~Deeper() { --reader.depth_; }
    Reader& reader;
  };

  // Counts the memory of messages. Throws invalid_argument if they take far more than the file.
  void charge(std::size_t bytes) {
    if (bytes > free_bytes_)
      throw Error(Code::invalid_argument, "its messages take more than " +
                                              std::to_string(kMaxGrowth) +
                                              " times the size of the file in memory");
    free_bytes_ -= bytes;
  }
  template <class T>
  void add(std::vector<T>& list, T item) {
    charge(sizeof(T));
    list.push_back(std::move(item));
  }

  std::shared_ptr<Type> inner(std::string_view bytes) {
    for (Wire fields(bytes); fields.next();)
      if (fields.number() == 1) return std::make_shared<Type>(type(fields.bytes()));
    return {};
  }

  static Type::Dim dim(std::string_view bytes) {
    Type::Dim d;
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) d.size = fields.integer();
      if (fields.number() == 2) d.symbol = fields.name();
    }
    return d;
  }

  static void tensor_type(std::string_view bytes, Type& t) {
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) {
        const std::int64_t number = fields.integer();
        require(number >= 0 && number < kDTypes, "a type with an unknown element type");
        t.element = static_cast<DType>(number);
      } else if (fields.number() == 2) {
        t.dims.emplace();
        for (Wire dims(fields.bytes()); dims.next();)
          if (dims.number() == 1) t.dims->push_back(dim(dims.bytes()));
      }
    }
  }

  ValueInfo value_info(std::string_view bytes) {
    ValueInfo info;
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) info.name = fields.name();
      if (fields.number() == 2) info.type = type(fields.bytes());
    }
    return info;
  }

  void initializer(std::string_view bytes, Graph& g) {
    charge(sizeof(Tensor));
    NamedTensor named = read_tensor(bytes, source_);
    require(g.initializers.emplace(named.name, std::move(named.tensor)).second,
            "two initializers are called '" + std::string(named.name) + "'");
  }

  SparseTensor sparse(std::string_view bytes) {
    SparseTensor s;
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) {
        NamedTensor named = read_tensor(fields.bytes(), source_);
        s.name = named.name;
        s.values = std::move(named.tensor);
      } else if (fields.number() == 2) {
        s.indices = read_tensor(fields.bytes(), source_).tensor;
      } else if (fields.number() == 3) {
        fields.add_to(s.dims);
      }
    }
    return s;
  }

  Node node(std::string_view bytes) {
    charge(kGraphNodeBytes);
    Node n;
    for (Wire fields(bytes); fields.next();) {
      switch (fields.number()) {
        case 1: n.inputs.push_back(fields.name()); break;
        case 2: n.outputs.push_back(fields.name()); break;
        case 3: n.name = fields.name(); break;
        case 4: n.op = fields.name(); break;
        case 5: add(n.attributes, attribute(fields.bytes())); break;
        case 7: n.domain = fields.name() == "ai.onnx" ? "" : fields.bytes(); break;
        case 8: n.overload = fields.name(); break;
        default: break;
      }
    }
    return n;
  }

  std::shared_ptr<Graph> subgraph(std::string_view bytes) {
    charge(sizeof(Graph));
    auto g = std::make_shared<Graph>();
    graph(bytes, *g);
    return g;
  }

  Attribute attribute(std::string_view bytes) {
    Attribute a;
    std::int64_t kind = 0;
    for (Wire fields(bytes); fields.next();) {
      switch (fields.number()) {
        case 1: a.name = fields.name(); break;
        case 2: a.real = fields.real(); break;
        case 3: a.integer = fields.integer(); break;
        case 4: a.string = fields.bytes(); break;
        case 5: a.tensor = read_tensor(fields.bytes(), source_).tensor; break;
        case 6: a.graph = subgraph(fields.bytes()); break;
        case 7: fields.add_to(a.reals); break;
        case 8: fields.add_to(a.integers); break;
        case 9: a.strings.push_back(fields.bytes()); break;
        case 10: add(a.tensors, read_tensor(fields.bytes(), source_).tensor); break;
        case 11: add(a.graphs, subgraph(fields.bytes())); break;
        case 14: a.type = type(fields.bytes()); break;
        case 20: kind = fields.integer(); break;
        case 21: a.refers_to = fields.name(); break;
        case 22:
          charge(sizeof(SparseTensor));
          a.sparse = std::make_shared<SparseTensor>(sparse(fields.bytes()));
          break;
        default: break;
      }
    }
    require(kind >= 0 && kind <= static_cast<int>(Attribute::Kind::types),
            "attribute '" + std::string(a.name) + "' is of an unknown kind");
    a.kind = static_cast<Attribute::Kind>(kind);
    return a;
  }

  Source& source_;
  std::size_t free_bytes_;  // for messages
  int depth_ = 0;
};

}  // namespace

Model parse(std::string_view bytes, std::shared_ptr<const void> keep,
            const std::filesystem::path& folder, std::string_view own) {
  Model model;
  model.keep = keep;
  Source source{.keep = keep, .folder = folder, .beside = {}};
  if (!own.empty()) source.beside.emplace(kOwnData, std::pair(own, keep));
  Reader reader(source, bytes.size());
  bool has_graph = false;
  for (Wire fields(bytes); fields.next();) {
    switch (fields.number()) {
      case 1: model.ir_version = fields.integer(); break;
      case 2: model.producer = fields.name(); break;
      case 3: model.producer_version = fields.name(); break;
      case 7: reader.graph(fields.bytes(), model.graph), has_graph = true; break;
      case 8: Reader::opset(fields.bytes(), model.opsets); break;
      case 25: model.functions.push_back(reader.function(fields.bytes())); break;
      default: break;
    }
  }
  require(has_graph, "there is no graph in it: this is no ONNX model");
  return model;
}

Tensor parse_tensor(std::string_view bytes, std::shared_ptr<const void> keep,
                    std::string_view own) {
  Source source{.keep = keep, .folder = {}, .beside = {}};
  source.beside.emplace(kOwnData, std::pair(own, keep));
  return read_tensor(bytes, source).tensor;
}

Model read(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return parse_file(file, [&](std::string_view bytes, const std::shared_ptr<const void>& keep) {
    return parse(bytes, keep, folder);
  });
}

Value parse_value(std::string_view bytes, const Type& type, std::shared_ptr<const void> keep) {
  Source source{.keep = keep, .folder = {}, .beside = {}};
  Value value{.kind = type.kind};
  if (type.kind == Type::Kind::sequence) {
    for (Wire fields(bytes); fields.next();) {
      require(fields.number() <= 3, "sequences of tensors are read, no others");
      if (fields.number() == 3) value.items.push_back(read_tensor(fields.bytes(), source).tensor);
    }
    return value;
  }
  if (type.kind != Type::Kind::optional) {
    value.tensor = read_tensor(bytes, source).tensor;
    return value;
  }
  value.present = false;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 3)
      value.tensor = read_tensor(fields.bytes(), source).tensor, value.present = true;
    if (fields.number() == 5) {
      const Type list{.kind = Type::Kind::sequence};
      value.items = parse_value(fields.bytes(), list, keep).items;
      value.present = true;
    }
  }
  return value;
}

Value read_value(const std::filesystem::path& file, const Type& type) {
  std::shared_ptr<const void> keep;
  const std::string_view bytes = map_file(file, keep);
  return parse_value(bytes, type, keep);
}

}  // namespace sluice::onnx
