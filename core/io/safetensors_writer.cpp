// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/io/output_file.h"
#include "core/io/safetensors.h"

namespace lockstep::io {

namespace {

constexpr std::size_t kHeaderAlignment = 8;  // of the data that follow

/// With its length before it. `tensors` have offsets from the first byte of the data.
std::string header_of(const std::string& file,
                      const std::vector<TensorEntry>& tensors,
                      const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorEntry& tensor : tensors)
    header[tensor.name] = {
        {"dtype", std::string(name_of(tensor.type))},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.offset_bytes, tensor.offset_bytes + tensor.bytes}}};
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format(
        "{}: a name or metadata is not UTF-8: {}", as_written(file), as_written(error.what())));
  }
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  const std::uint64_t bytes = text.size();
  std::string length(sizeof bytes, '\0');
  std::memcpy(length.data(), &bytes, sizeof bytes);
  return length + text;
}

/// Bytes by type and shape.
std::uint64_t bytes_of(const std::string& file, const TensorEntry& tensor) {
  std::uint64_t bytes = size_in_bytes(tensor.type);
  for (std::int64_t extent : tensor.shape)
    LOCKSTEP_CHECK(extent >= 0 && !__builtin_mul_overflow(bytes, std::uint64_t(extent), &bytes),
                   DataError,
                   "{}: tensor '{}' has an impossible extent of {}",
                   as_written(file),
                   as_written(tensor.name),
                   extent);
  return bytes;
}

void take_name(const std::string& file, const std::string& name, std::set<std::string>& names) {
  LOCKSTEP_CHECK(name != "__metadata__" && names.insert(name).second,
                 DataError,
                 "{}: the name '{}' is taken",
                 as_written(file),
                 as_written(name));
}

}  // namespace

void check_tensor(const std::string& file, const TensorView& tensor, std::set<std::string>& names) {
  take_name(file, tensor.name, names);
  const std::uint64_t bytes =
      bytes_of(file, {.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
  LOCKSTEP_CHECK(bytes == tensor.data.size(),
                 DataError,
                 "{}: tensor '{}' needs {} bytes by its shape, got {}",
                 as_written(file),
                 as_written(tensor.name),
                 bytes,
                 tensor.data.size());
}

SafetensorsLayout lay_out_safetensors(const std::string& file,
                                      std::span<const TensorEntry> tensors,
                                      const Metadata& metadata) {
  SafetensorsLayout layout;
  layout.entries.assign(tensors.begin(), tensors.end());
  std::ranges::stable_sort(layout.entries, std::greater<>(), [](const TensorEntry& tensor) {
    return size_in_bytes(tensor.type);
  });
  std::set<std::string> names;
  for (TensorEntry& tensor : layout.entries) {
    take_name(file, tensor.name, names);
    tensor.bytes = bytes_of(file, tensor);
    tensor.offset_bytes = layout.bytes;
    layout.bytes += tensor.bytes;
  }
  layout.header = header_of(file, layout.entries, metadata);
  for (TensorEntry& tensor : layout.entries) tensor.offset_bytes += layout.header.size();
  layout.bytes += layout.header.size();
  return layout;
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  const std::string file = path.string();
  std::set<std::string> names;
  std::map<std::string_view, std::span<const std::byte>> data;
  std::vector<TensorEntry> entries;
  for (const TensorView& tensor : tensors) {
    check_tensor(file, tensor, names);
    data[tensor.name] = tensor.data;
    entries.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
  }
  const SafetensorsLayout layout = lay_out_safetensors(file, entries, metadata);
  OutputFile out(path);
  out.write(std::as_bytes(std::span(layout.header)));
  for (const TensorEntry& tensor : layout.entries) out.write(data.at(tensor.name));
  out.finish();
}

}  // namespace lockstep::io
