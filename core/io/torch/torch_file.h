// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/file_reader.h"
#include "core/io/torch/pickle.h"
#include "core/io/weight_source.h"

namespace lockstep::io::torch {

/// Whether `file` begins as torch.save() begins files, or has PyTorch's ending (.pth, .pt) and is
/// not a safetensors file. Throws DataError: it cannot be read.
bool is_torch_file(const std::string& file);

/// A state dict as torch.save() writes it, or a checkpoint that holds one: the zip archive of
/// PyTorch 1.6 and later (data.pkl and a stored entry data/KEY for each storage), and what came
/// before (five pickles in a row, then the storages). See Pickle for what a pickle may hold, and
/// state_dict_of() for where tensors are looked for.
class TorchFile final : public WeightSource {
 public:
  /// Throws DataError naming the file: it is neither, is of a machine with the other byte order, is
  /// damaged, or is refused by Pickle or state_dict_of().
  explicit TorchFile(const std::string& file);

  void read(std::size_t index, std::span<std::byte> to) const override;

 private:
  struct Place {
    std::uint64_t offset = 0;          // of the first element, in the file
    std::vector<std::int64_t> stride;  // in elements
  };
  void open_archive();
  void open_legacy();
  void read_legacy(std::string_view bytes);
  /// `storage_offset(storage)`: where the whole storage lies in the file.
  template <typename Offset>
  void place_tensors(const Pickle& pickle, Offset storage_offset);

  FileReader file_;
  std::vector<Place> places_;  // of entries
};

}  // namespace lockstep::io::torch
