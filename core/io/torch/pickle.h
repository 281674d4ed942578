// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/safetensors.h"
#include "lockstep/error.h"

namespace lockstep::io::torch {

/// What a pickle may ask for; every other name is refused.
enum class Global : std::uint8_t {
  ordered_dict,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_parameter,
  size,
  dtype,
  storage
};

/// Place of a value in its Pickle. Values refer to each other by it, in circles too.
using ValueId = std::uint32_t;

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    other,  ///< floating-point numbers, bytes, and integers of more than 64 bits: `text`
    text,
    tuple,
    list,
    dict,
    global,
    storage,
    tensor
  };
  Kind kind = Kind::none;
  Global global = {};
  ElementType type = {};         ///< global: of its storage
  std::int64_t number = 0;       ///< boolean, integer; storage, tensor: place in the Pickle's list
  std::string_view text;         ///< text, other, of the bytes that were given
  std::vector<ValueId> items{};  ///< tuple, list; dict: key and value in turn, as they were set
};

/// A storage, or of old files a part of one.
struct PickledStorage {
  std::string_view key;
  ElementType type = {};
  std::int64_t whole = 0;             ///< elements of the storage that `key` names
  std::int64_t first = 0, elems = 0;  ///< of the part
};

/// A view of a storage: element (i, j, ...) lies at first + i stride[0] + j stride[1] + ...; all of
/// them lie inside, and they are not more than the storage has.
struct PickledTensor {
  std::size_t storage = 0;
  std::int64_t first = 0;  ///< counted from the start of the whole storage
  std::vector<std::int64_t> shape, stride;
};

/// The bytes given end before the pickle does.
class PickleCutOff : public DataError {
 public:
  using DataError::DataError;
};

/// A pickle (protocols 2 to 5, https://github.com/python/cpython/blob/main/Lib/pickletools.py) of
/// which nothing is run: it can build numbers, texts, tuples, lists, dicts and the tensors of
/// PyTorch's state dicts, and nothing else.
class Pickle {
 public:
  /// Reads one pickle from the start of `bytes`, which must outlive this. Values take at most 32
  /// MiB more memory than `bytes`. Throws DataError naming `file`: what the pickle asks for and is
  /// not a tensor, by its name; bytes that are not a pickle; views that leave their storage; too
  /// many values. PickleCutOff: see there.
  Pickle(const std::string& file, std::string_view bytes);

  const PickleValue& root() const { return at(root_); }
  const PickleValue& at(ValueId id) const { return values_[id]; }
  const std::vector<PickledStorage>& storages() const { return storages_; }
  const std::vector<PickledTensor>& tensors() const { return tensors_; }
  /// That the pickle has.
  std::size_t bytes() const { return bytes_; }

 private:
  friend class Unpickler;
  std::deque<PickleValue> values_;
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
  ValueId root_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::io::torch
