// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/legacy_file.h"

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "lockstep/shape.h"

namespace lockstep::io::torch {
namespace {

constexpr std::int64_t kLegacyProtocol = 1001;

bool is_big_endian(const Pickle& system) {
  const PickleValue& dict = system.root();
  if (dict.kind != PickleValue::Kind::dict) return false;
  for (std::size_t i = 0; i < dict.items.size(); i += 2)
    if (system.at(dict.items[i]).text == "little_endian")
      return system.at(dict.items[i + 1]).number == 0;
  return false;
}

}  // namespace

LegacyFile::LegacyFile(const FileReader& file, std::string_view start)
    : file_(file.path().string()),
      rest_(start),
      magic_(next(file, rest_)),
      protocol_(next(file, rest_)),
      system_(next(file, rest_)),
      object_(next(file, rest_)),
      keys_(next(file, rest_)) {
  LOCKSTEP_CHECK(protocol_.root().number == kLegacyProtocol,
                 DataError,
                 "{}: its protocol is not {}, the only one that PyTorch had",
                 as_written(file_),
                 kLegacyProtocol);
  LOCKSTEP_CHECK(!is_big_endian(system_),
                 DataError,
                 "{}: its byte order is big-endian, expected little-endian",
                 as_written(file_));
  find_storages(file, start.size() - rest_.size());
}

Pickle LegacyFile::next(const FileReader& file, std::string_view& rest) {
  Pickle pickle(file.path().string(), rest);
  rest.remove_prefix(pickle.bytes());
  return pickle;
}

void LegacyFile::find_storages(const FileReader& file, std::uint64_t at) {
  std::map<std::string_view, const PickledStorage*> known;
  for (const PickledStorage& storage : object_.storages()) {
    const PickledStorage& first = *known.emplace(storage.key, &storage).first->second;
    LOCKSTEP_CHECK(first.type == storage.type && first.whole == storage.whole,
                   DataError,
                   "{}: storage {} has two types or sizes",
                   as_written(file_),
                   as_written(printable(storage.key)));
  }
  for (const ValueId id : keys_.root().items) {
    const auto found = known.find(keys_.at(id).text);
    LOCKSTEP_CHECK(found != known.end() && !offsets_.contains(found->first),
                   DataError,
                   "{}: its list of storages names {}, which no tensor has, or names it twice",
                   as_written(file_),
                   as_written(printable(keys_.at(id).text)));
    const PickledStorage& storage = *found->second;
    std::int64_t elems = 0;
    file.read(file_, at, std::as_writable_bytes(std::span(&elems, 1)));
    at += sizeof elems;
    LOCKSTEP_CHECK(elems == storage.whole &&
                       std::uint64_t(elems) <= (file.bytes() - at) / size_in_bytes(storage.type),
                   DataError,
                   "{}: storage {} has {} elements in a file with {} more bytes, expected {} of {}",
                   as_written(file_),
                   as_written(printable(storage.key)),
                   elems,
                   file.bytes() - at,
                   storage.whole,
                   name_of(storage.type));
    offsets_.emplace(storage.key, at);
    at += std::uint64_t(elems) * size_in_bytes(storage.type);
  }
}

std::uint64_t LegacyFile::offset(const PickledStorage& storage) const {
  const auto found = offsets_.find(storage.key);
  LOCKSTEP_CHECK(found != offsets_.end(),
                 DataError,
                 "{}: storage {} of a tensor is missing",
                 as_written(file_),
                 as_written(printable(storage.key)));
  return found->second;
}

}  // namespace lockstep::io::torch
