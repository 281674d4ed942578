// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::onnx_file {
class Graph;
class Node;
}  // namespace lockstep::onnx_file

namespace lockstep::onnx {

/// The element types of ONNX that are used here, with their numbers.
enum class Element : std::uint8_t { f32 = 1, u8 = 2, i64 = 7 };

/// An attribute of a node: a number, a whole number, or several.
struct Attribute {
  enum class Kind : std::uint8_t { real = 1, whole = 2, several = 7 };
  Attribute(std::string key, float value) : name(std::move(key)), kind(Kind::real), f(value) {}
  Attribute(std::string key, int value)
      : name(std::move(key)), kind(Kind::whole), ints{std::int64_t(value)} {}
  Attribute(std::string key, std::vector<std::int64_t> values)
      : name(std::move(key)), kind(Kind::several), ints(std::move(values)) {}

  std::string name;
  Kind kind;
  float f = 0;
  std::vector<std::int64_t> ints;
};

/// An extent of an input or output: a number, or the name of one that is chosen at each run.
struct Extent {
  std::int64_t value = 0;
  std::string name = {};
};

/// Appends nodes and constants to a graph of ONNX. Values are known by their names.
class GraphWriter {
 public:
  explicit GraphWriter(onnx_file::Graph& graph) : graph_(graph) {}

  void add_input(const std::string& name, Element type, std::span<const Extent> shape);
  void add_output(const std::string& name, std::span<const Extent> shape);

  /// No node or constant takes this name.
  void reserve_name(const std::string& name) { names_.insert(name); }
  /// Of the nodes that follow: their names begin with it, as "layer1.0.conv1".
  void set_path(const std::string& path) { path_ = path; }
  /// Appends a node with one output, or `outputs` of them, and returns their names. An input
  /// without a name is omitted.
  std::string add(const std::string& op,
                  std::initializer_list<std::string> inputs,
                  const std::vector<Attribute>& attributes = {});
  std::vector<std::string> add_several(const std::string& op,
                                       std::initializer_list<std::string> inputs,
                                       const std::vector<Attribute>& attributes,
                                       int outputs);
  std::string concatenate(const std::vector<std::string>& inputs, int axis);
  /// Gives `value` the name of an output of the graph.
  void name_output(const std::string& value, const std::string& output);

  /// A constant without extents, a row of whole numbers, or a tensor.
  std::string scalar(float value);
  std::string whole(std::int64_t value);
  std::string row(std::span<const std::int64_t> values);
  std::string tensor(std::span<const float> values, std::span<const std::int64_t> shape);

 private:
  onnx_file::Node& append(const std::string& op,
                          std::initializer_list<std::string> inputs,
                          const std::vector<Attribute>& attributes);
  std::string unique(const std::string& name);
  std::string constant(Element type,
                       std::span<const std::byte> bytes,
                       std::span<const std::int64_t> shape);

  onnx_file::Graph& graph_;
  std::string path_;
  std::set<std::string> names_;
};

}  // namespace lockstep::onnx
