// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/file_reader.h"
#include "core/base/zip/zip_reader.h"

namespace lockstep::data {

/// The whole of a deflated entry of the zip file `file`. Memory grows with what comes, whatever the
/// directory claims. Throws DataError beginning with `name`: damaged compression, more or fewer
/// bytes than the directory says, another checksum than a directory that has one says.
std::vector<std::byte> inflate_entry(const std::string& name,
                                     const FileReader& file,
                                     const ZipEntry& entry);

}  // namespace lockstep::data
