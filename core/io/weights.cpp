// SPDX-License-Identifier: Apache-2.0
#include "core/io/weights.h"

#include <algorithm>
#include <filesystem>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/io/safetensors.h"

namespace lockstep::io {
namespace {

constexpr std::size_t kPieceFloats = std::size_t{1} << 16;

/// Calls visit(file_index, stored_index) for every element.
template <typename Visit>
void walk(const Parameter& parameter, Visit visit) {
  const FileLayout& layout = parameter.file_layout;
  const auto elems = std::size_t(parameter.shape.elems());
  if (layout.permutation.empty()) {
    for (std::size_t i = 0; i < elems; ++i) visit(i, i);
    return;
  }
  const int rank = layout.stored.rank();
  std::vector<std::int64_t> stride(std::size_t(rank), 1), extent, file_stride;
  for (int d = rank - 2; d >= 0; --d)
    stride[std::size_t(d)] = stride[std::size_t(d) + 1] * layout.stored[d + 1];
  for (int d : layout.permutation) {
    extent.push_back(layout.stored[d]);
    file_stride.push_back(stride[std::size_t(d)]);
  }
  std::vector<std::int64_t> index(std::size_t(rank), 0);
  std::int64_t stored = 0;
  for (std::size_t file = 0; file < elems; ++file) {
    visit(file, std::size_t(stored));
    for (std::size_t d = std::size_t(rank); d-- > 0;) {
      stored += file_stride[d];
      if (++index[d] < extent[d]) break;
      stored -= file_stride[d] * extent[d];
      index[d] = 0;
    }
  }
}

}  // namespace

std::vector<float> to_file_layout(const Parameter& parameter, std::span<const float> stored) {
  LOCKSTEP_ASSERT(std::int64_t(stored.size()) == parameter.shape.elems());
  std::vector<float> file(stored.size());
  walk(parameter, [&](std::size_t f, std::size_t s) { file[f] = stored[s]; });
  return file;
}

void for_file_layout(const Parameter& parameter,
                     std::span<const float> stored,
                     const std::function<void(std::span<const float>)>& visit) {
  LOCKSTEP_ASSERT(std::int64_t(stored.size()) == parameter.shape.elems());
  if (parameter.file_layout.permutation.empty()) return visit(stored);
  std::vector<float> piece(std::min(stored.size(), kPieceFloats));
  walk(parameter, [&](std::size_t f, std::size_t s) {
    piece[f % kPieceFloats] = stored[s];
    if ((f + 1) % kPieceFloats == 0) visit(piece);
  });
  visit(std::span<const float>(piece).first(stored.size() % kPieceFloats));
}

std::vector<float> from_file_layout(const Parameter& parameter, std::span<const float> file) {
  LOCKSTEP_ASSERT(std::int64_t(file.size()) == parameter.shape.elems());
  std::vector<float> stored(file.size());
  walk(parameter, [&](std::size_t f, std::size_t s) { stored[s] = file[f]; });
  return stored;
}

std::string weights_sha256(std::span<const NamedTensor> tensors) {
  Sha256 hash;
  for (const NamedTensor& tensor : tensors)
    for_file_layout(tensor.parameter, tensor.values, [&](std::span<const float> piece) {
      hash.update(std::as_bytes(piece));
    });
  return hash.hex();
}

void save_weights(const std::string& file, std::span<const NamedTensor> tensors) {
  std::vector<std::vector<float>> values;
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : tensors) {
    values.push_back(to_file_layout(tensor.parameter, tensor.values));
    const auto dims = tensor.parameter.file_layout.file.dims();
    views.push_back({tensor.parameter.name,
                     ElementType::f32,
                     {dims.begin(), dims.end()},
                     std::as_bytes(std::span<const float>(values.back()))});
  }
  const std::filesystem::path temporary = file + ".tmp";
  write_safetensors(temporary, views, {{"format", "pt"}});
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  LOCKSTEP_CHECK(!error,
                 EnvironmentError,
                 "{}: cannot be renamed from {}: {}",
                 as_written(file),
                 as_written(temporary.string()),
                 error.message());
}

}  // namespace lockstep::io
