// SPDX-License-Identifier: Apache-2.0
#include "launcher/onnx/onnx_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/text/name_patterns.h"
#include "core/io/folder.h"
#include "core/io/load_weights.h"
#include "core/io/output_file.h"
#include "core/io/preprocessing_file.h"
#include "core/io/weights.h"
#include "core/nn/builder.h"
#include "core/nn/trace.h"
#include "launcher/onnx/onnx_operators.h"
#include "launcher/processes/host_facts.h"
#include "onnx.pb.h"

namespace lockstep::onnx {
namespace {

namespace fs = std::filesystem;

/// The extents that ONNX's value has: images with their channels first.
std::vector<Extent> extents_of(const TensorType& type, bool tokens) {
  std::vector<std::int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  if (dims.size() == 4) dims = {dims[0], dims[3], dims[1], dims[2]};
  std::vector<Extent> extents;
  for (const std::int64_t dim : dims) extents.push_back({.value = dim});
  extents[0] = {.name = "batch"};
  if (tokens) extents[1] = {.name = "sequence"};
  return extents;
}

std::string to_text(const std::string& name, const char* type, const std::vector<Extent>& shape) {
  std::vector<std::string> extents;
  for (const Extent& extent : shape)
    extents.push_back(extent.name.empty() ? std::to_string(extent.value) : extent.name);
  return fmt::format("{}: {} [{}]", name, type, fmt::join(extents, ", "));
}

void add_metadata(onnx_file::Model& model, const std::string& key, const std::string& value) {
  onnx_file::StringStringEntry& entry = *model.add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

void add_record(onnx_file::Model& model, const data::Preprocessing& record) {
  add_metadata(model, "preprocessing", io::to_json(record));
  if (record.class_names.empty()) return;
  const nlohmann::json names = record.class_names;
  const auto replace = nlohmann::json::error_handler_t::replace;  // bytes that are not UTF-8
  add_metadata(model, "classes", names.dump(-1, ' ', false, replace));
}

void add_entry(onnx_file::Tensor& tensor, const char* key, const std::string& value) {
  onnx_file::StringStringEntry& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

/// The weights, in the model's message or in a file next to it.
class Weights {
 public:
  Weights(onnx_file::Graph& graph, io::OutputFile* file, std::string file_name)
      : graph_(graph), file_(file), file_name_(std::move(file_name)) {}

  void add(const Parameter& parameter, std::span<const float> stored) {
    onnx_file::Tensor& tensor = *graph_.add_initializer();
    tensor.set_name(parameter.name);
    tensor.set_data_type(int(Element::f32));
    const auto dims = parameter.file_layout.file.dims();
    tensor.mutable_dims()->Assign(dims.begin(), dims.end());
    if (file_ == nullptr) {
      std::string& data = *tensor.mutable_raw_data();
      data.reserve(stored.size_bytes());
      io::for_file_layout(parameter, stored, [&](std::span<const float> piece) {
        data.append(reinterpret_cast<const char*>(piece.data()), piece.size_bytes());
      });
      return;
    }
    io::for_file_layout(parameter, stored, [&](std::span<const float> piece) {
      file_->write(std::as_bytes(piece));
    });
    tensor.set_data_location(onnx_file::Tensor::EXTERNAL);
    add_entry(tensor, "location", file_name_);
    add_entry(tensor, "offset", std::to_string(written_));
    add_entry(tensor, "length", std::to_string(stored.size_bytes()));
    written_ += stored.size_bytes();
  }

 private:
  onnx_file::Graph& graph_;
  io::OutputFile* file_;
  std::string file_name_;
  std::uint64_t written_ = 0;
};

std::uint64_t bytes_of(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const Parameter& parameter : graph.parameters())
    bytes += std::uint64_t(parameter.shape.elems()) * sizeof(float);
  return bytes;
}

fs::path temporary_for(const fs::path& file) {
  return file.string() + fmt::format(".{}.tmp", getpid());
}

/// A file without operators and weights.
onnx_file::Model described(const data::Preprocessing& record) {
  onnx_file::Model file;
  file.set_ir_version(kIrVersion);
  file.set_producer_name("lockstep");
  file.set_producer_version(lockstep_version());
  file.add_opset_import()->set_version(kOperatorSet);
  add_record(file, record);
  file.mutable_graph()->set_name("model");
  return file;
}

bool is_of_tokens(const Graph& graph) {
  return graph.value(graph.input_value(0)).type.dtype == DType::i32;
}

/// These return what WrittenModel says.
std::string add_input(const Graph& graph, GraphWriter& writer, OperatorWriter& operators) {
  const ValueId x = graph.input_value(0);
  const TensorType& type = graph.value(x).type;
  const std::vector<Extent> shape = extents_of(type, is_of_tokens(graph));
  const auto [element, name] = is_of_tokens(graph)       ? std::pair(Element::i64, "int64")
                               : type.dtype == DType::u8 ? std::pair(Element::u8, "uint8")
                                                         : std::pair(Element::f32, "float");
  writer.add_input(kInputName, element, shape);
  operators.set_name(x, kInputName);
  return to_text(kInputName, name, shape);
}

std::string add_output(const Graph& graph, GraphWriter& writer, const OperatorWriter& operators) {
  const ValueId prediction = graph.outputs().front().second;
  const std::vector<Extent> shape = extents_of(graph.value(prediction).type, is_of_tokens(graph));
  writer.set_path(kPredictionName);
  writer.add_output(kPredictionName, shape);
  writer.name_output(operators.name_of(prediction), kPredictionName);
  return to_text(kPredictionName, "float", shape);
}

}  // namespace

WrittenModel write_model(const fs::path& to,
                         const ModelFunction& model,
                         const data::Preprocessing& record,
                         const std::string& weights,
                         bool force,
                         std::uint64_t max_bytes_inside) {
  const Graph graph = trace_prediction(model, record.samples, {.micro_batch = 1, .fuse = false});
  const auto loaded =
      io::load_weights(weights, graph.parameters(), NamePatterns("`init_skip`", {}));
  const bool apart = bytes_of(graph) > max_bytes_inside;
  const fs::path data_file = to.string() + ".data";
  if (apart && !force && io::name_exists(data_file))
    throw ConfigError(fmt::format("export: {} already exists", data_file.string()),
                      "choose another file, or write over it with --force");

  onnx_file::Model file = described(record);
  GraphWriter writer(*file.mutable_graph());
  OperatorWriter operators(graph, writer);
  WrittenModel written;
  written.input = add_input(graph, writer, operators);
  const fs::path temporary = temporary_for(to), temporary_data = temporary_for(data_file);
  std::optional<io::OutputFile> data;
  if (apart) data.emplace(temporary_data);
  Weights parameters(*file.mutable_graph(), data ? &*data : nullptr, data_file.filename().string());
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind == ParameterKind::metric) continue;
    parameters.add(parameter, loaded[next++].values);
    writer.reserve_name(parameter.name);
    operators.set_name(graph.parameter_value(int(i)), parameter.name);
  }
  for (const Node& node : graph.nodes()) operators.add(node);
  written.output = add_output(graph, writer, operators);

  std::string text;
  LOCKSTEP_CHECK(file.SerializeToString(&text),
                 EnvironmentError,
                 "{}: the model takes more than the 2 GiB of an ONNX file",
                 to.string());
  io::write_file(temporary, text);
  if (data) {
    try {
      data->finish();
      io::put_in_place(temporary_data, data_file, force);
    } catch (...) {
      io::remove_tree(temporary);
      throw;
    }
    written.data_file = data_file;
  }
  io::put_in_place(temporary, to, force);
  return written;
}

}  // namespace lockstep::onnx
