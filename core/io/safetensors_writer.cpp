// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/io/output_file.h"
#include "core/io/safetensors.h"

namespace lockstep::io {

namespace {

constexpr std::size_t kHeaderAlignment = 8;  // of the data that follow
/// Observers see bytes while they are still in the cache.
constexpr std::size_t kWrittenAtOnceBytes = std::size_t{1} << 20;

std::string header_of(const std::string& file,
                      std::span<const TensorView* const> tensors,
                      const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView* tensor : tensors) {
    const std::uint64_t end = offset + tensor->data.size();
    header[tensor->name] = {{"dtype", std::string(name_of(tensor->type))},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format(
        "{}: a name or metadata is not UTF-8: {}", as_written(file), as_written(error.what())));
  }
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  return text;
}

}  // namespace

void check_tensor(const std::string& file, const TensorView& tensor, std::set<std::string>& names) {
  LOCKSTEP_CHECK(tensor.name != "__metadata__" && names.insert(tensor.name).second,
                 DataError,
                 "{}: the name '{}' is taken",
                 as_written(file),
                 as_written(tensor.name));
  std::uint64_t bytes = size_in_bytes(tensor.type);
  for (std::int64_t extent : tensor.shape)
    LOCKSTEP_CHECK(extent >= 0 && !__builtin_mul_overflow(bytes, std::uint64_t(extent), &bytes),
                   DataError,
                   "{}: tensor '{}' has an impossible extent of {}",
                   as_written(file),
                   as_written(tensor.name),
                   extent);
  LOCKSTEP_CHECK(bytes == tensor.data.size(),
                 DataError,
                 "{}: tensor '{}' needs {} bytes by its shape, got {}",
                 as_written(file),
                 as_written(tensor.name),
                 bytes,
                 tensor.data.size());
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorView> tensors,
                       const Metadata& metadata,
                       WriteObserver* observer) {
  const std::string file = path.string();
  std::set<std::string> names;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    check_tensor(file, tensor, names);
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return size_in_bytes(a->type) > size_in_bytes(b->type);
  });
  const std::string header = header_of(file, order, metadata);
  const std::uint64_t header_bytes = header.size();

  OutputFile out(path);
  const auto put = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto chunk = bytes.first(std::min(bytes.size(), kWrittenAtOnceBytes));
      out.write(chunk);
      if (observer != nullptr) observer->on_bytes(chunk);
      bytes = bytes.subspan(chunk.size());
    }
  };
  put(std::as_bytes(std::span(&header_bytes, 1)));
  put(std::as_bytes(std::span(header)));
  if (observer != nullptr) observer->on_header_end();
  for (const TensorView* tensor : order) {
    if (observer == nullptr) {
      put(tensor->data);
      continue;
    }
    std::size_t left = tensor->data.size();
    observer->make_bytes(*tensor, [&](std::span<const std::byte> bytes) {
      LOCKSTEP_ASSERT(bytes.size() <= left);
      left -= bytes.size();
      put(bytes);
    });
    LOCKSTEP_ASSERT(left == 0);
    observer->on_tensor_end(*tensor);
  }
  out.finish();
}

}  // namespace lockstep::io
