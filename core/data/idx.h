// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// An IDX file of bytes: a big-endian header (0, 0, type 8, number of dimensions, each extent as
/// 32 bits), then the elements, the last dimension innermost.
/// Source: Yann LeCun, "The MNIST database", file formats.
struct IdxFile {
  std::vector<std::int64_t> dims;
  std::vector<std::byte> data;
};

/// Reads a plain or gzip-compressed (recognised by its first bytes, not its name) IDX file of
/// unsigned bytes with exactly `rank` dimensions. Allocates no more than a header that fits the
/// file asks for, and at most 1 GiB. Throws DataError naming the file, what was expected and what
/// came: not an IDX file, another type or rank, an empty dimension, more or fewer bytes than the
/// header says, damaged compression.
IdxFile read_idx(const std::string& file, int rank, const std::string& hint);

}  // namespace lockstep::data
