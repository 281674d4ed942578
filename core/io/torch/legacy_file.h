// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/file_reader.h"
#include "core/io/torch/pickle.h"

namespace lockstep::io::torch {

/// A file as torch.save() wrote it before PyTorch 1.6, and writes it still where
/// _use_new_zipfile_serialization=False: pickles of a magic number, of the protocol's number, of
/// facts of the machine, of the object and of the list of its storages' keys; then for each key the
/// number of its elements (8 bytes) and the elements.
class LegacyFile {
 public:
  /// `start`: of the file, at least the pickles; must outlive this. Throws DataError naming the
  /// file: another protocol or byte order, storages that contradict the pickles or the file's
  /// size. PickleCutOff: `start` ends before the pickles do.
  LegacyFile(const FileReader& file, std::string_view start);

  const Pickle& object() const { return object_; }
  /// Where the storage that it is part of lies. Throws DataError: it was not written.
  std::uint64_t offset(const PickledStorage& storage) const;

 private:
  static Pickle next(const FileReader& file, std::string_view& rest);
  void find_storages(const FileReader& file, std::uint64_t at);

  std::string file_;
  std::string_view rest_;  // after the pickles read so far
  Pickle magic_, protocol_, system_, object_, keys_;
  std::map<std::string_view, std::uint64_t> offsets_;
};

}  // namespace lockstep::io::torch
