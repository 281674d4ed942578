// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/torch_file.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/base/zip/zip_format.h"
#include "core/base/zip/zip_reader.h"
#include "core/io/torch/legacy_file.h"
#include "core/io/torch/state_dict.h"
#include "lockstep/shape.h"

namespace lockstep::io::torch {
namespace {

constexpr std::string_view kZipMagic("PK\3\4", 4);
/// The pickle of 0x1950a86a20f9469cfc6c, which files before PyTorch 1.6 begin with.
constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                                        14);
constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{256} << 20;

std::string first_bytes(const FileReader& file) {
  std::string start(std::min<std::uint64_t>(file.bytes(), kLegacyStart.size()), '\0');
  file.read(file.path().string(), 0, std::as_writable_bytes(std::span(start)));
  return start;
}

bool has_torch_magic(std::string_view start) {
  return start.starts_with(kZipMagic) || start == kLegacyStart;
}

std::uint64_t dense_elems(std::span<const std::int64_t> shape) {
  std::uint64_t elems = 1;  // as many as a storage has at most
  for (const std::int64_t extent : shape) elems *= std::uint64_t(extent);
  return std::ranges::find(shape, 0) == shape.end() ? elems : 0;
}

bool is_dense(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride) {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && stride[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

template <std::size_t Bytes>
void gather(const WeightEntry& entry,
            std::span<const std::int64_t> stride,
            const std::byte* from,
            std::byte* to) {
  std::vector<std::int64_t> index(entry.shape.size(), 0);
  std::int64_t at = 0;
  for (std::uint64_t done = 0; done < entry.bytes; done += Bytes) {
    std::memcpy(to + done, from + at * std::int64_t(Bytes), Bytes);
    for (std::size_t d = index.size(); d-- > 0;) {
      at += stride[d];
      if (++index[d] < entry.shape[d]) break;
      at -= stride[d] * entry.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

bool is_torch_file(const std::string& file) {
  if (file.ends_with(".safetensors")) return false;
  return file.ends_with(".pth") || file.ends_with(".pt") ||
         has_torch_magic(first_bytes(FileReader(file)));
}

TorchFile::TorchFile(const std::string& file) : WeightSource(file), file_(file) {
  const std::string start = first_bytes(file_);
  if (!has_torch_magic(start))
    throw DataError(as_written(file) +
                        ": was not written by torch.save(): it begins neither as a zip archive "
                        "nor as the files before PyTorch 1.6",
                    "torch.save(model.state_dict(), FILE) in Python writes what is expected");
  start.starts_with(kZipMagic) ? open_archive() : open_legacy();
}

template <typename Offset>
void TorchFile::place_tensors(const Pickle& pickle, Offset storage_offset) {
  StateDict dict = state_dict_of(name_, pickle);
  others_ = std::move(dict.others);
  under_ = std::move(dict.under);
  for (auto& [name, tensor] : dict.tensors) {
    const PickledStorage& storage = pickle.storages()[tensor->storage];
    const std::uint64_t element = size_in_bytes(storage.type);
    places_.push_back(
        {storage_offset(storage) + std::uint64_t(tensor->first) * element, tensor->stride});
    entries_.push_back(
        {std::move(name), storage.type, tensor->shape, dense_elems(tensor->shape) * element});
  }
}

void TorchFile::open_archive() {
  const ZipReader zip(file_);
  const std::string pickle_name = zip.find_ending("/data.pkl");
  if (pickle_name.empty())
    throw DataError(as_written(name_) +
                    ": a zip archive without data.pkl, which torch.save() writes");
  const std::string folder = pickle_name.substr(0, pickle_name.find('/') + 1);
  if (zip.contains(folder + "constants.pkl"))
    throw DataError(as_written(name_) + ": a TorchScript program, expected a state dict",
                    "torch.save(torch.jit.load(FILE).state_dict(), OTHER) in Python writes one");
  constexpr std::uint64_t kMaxWord = 16;
  if (zip.contains(folder + "byteorder"))
    if (const auto order = zip.read_text(folder + "byteorder", kMaxWord); order != "little")
      throw DataError(fmt::format("{}: its byte order is '{}', expected little",
                                  as_written(name_),
                                  as_written(printable(order))));
  const std::string bytes = zip.read_text(pickle_name, kMaxPickleBytes);
  const Pickle pickle(name_, bytes);
  std::map<std::string_view, ZipEntry> known;
  place_tensors(pickle, [&](const PickledStorage& storage) {
    const std::string name = fmt::format("{}data/{}", folder, storage.key);
    const auto [found, is_new] = known.emplace(storage.key, ZipEntry{});
    if (is_new) found->second = zip.stored_entry(name);
    LOCKSTEP_CHECK(
        std::uint64_t(storage.whole) <= found->second.bytes / size_in_bytes(storage.type),
        DataError,
        "{}: {} has {} bytes, expected {} elements of {}",
        as_written(name_),
        as_written(printable(name)),
        found->second.bytes,
        storage.whole,
        name_of(storage.type));
    return found->second.offset;
  });
}

/// How long the pickles are is known when they have been read: as much of the file as they need.
void TorchFile::open_legacy() {
  constexpr std::uint64_t kFirstBytes = std::uint64_t{1} << 20;
  const std::uint64_t most = std::min(file_.bytes(), kMaxPickleBytes);
  for (std::uint64_t bytes = std::min(most, kFirstBytes);; bytes = std::min(most, 2 * bytes)) {
    std::string start(bytes, '\0');
    file_.read(name_, 0, std::as_writable_bytes(std::span(start)));
    try {
      return read_legacy(start);
    } catch (const PickleCutOff&) {
      if (bytes == most) throw;
    }
  }
}

void TorchFile::read_legacy(std::string_view bytes) {
  const LegacyFile legacy(file_, bytes);
  place_tensors(legacy.object(),
                [&](const PickledStorage& storage) { return legacy.offset(storage); });
}

void TorchFile::read(std::size_t index, std::span<std::byte> to) const {
  const WeightEntry& entry = entries_[index];
  const Place& place = places_[index];
  const std::string what = fmt::format("{}: tensor '{}'", name_, printable(entry.name));
  LOCKSTEP_ASSERT(to.size() == entry.bytes);
  if (to.empty()) return;
  if (is_dense(entry.shape, place.stride)) return file_.read(what, place.offset, to);
  const std::size_t element = size_in_bytes(entry.type);
  std::int64_t last = 0;
  for (std::size_t d = 0; d < entry.shape.size(); ++d)
    last += (entry.shape[d] - 1) * place.stride[d];
  std::vector<std::byte> around((std::size_t(last) + 1) * element);
  file_.read(what, place.offset, around);
  const auto copy = element == 8   ? gather<8>
                    : element == 4 ? gather<4>
                    : element == 2 ? gather<2>
                                   : gather<1>;
  copy(entry, place.stride, around.data(), to.data());
}

}  // namespace lockstep::io::torch
