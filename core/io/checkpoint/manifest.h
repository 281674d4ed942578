// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/checkpoint/checkpoint.h"

namespace lockstep::io {

/// A stretch of a safetensors file that ends where a tensor does.
struct ManifestPart {
  std::string tensor;     ///< empty: the header
  std::uint64_t end = 0;  ///< bytes of the file before it
  /// Of the stretch alone, so that whoever writes it can hash it. In version 1: of all bytes of the
  /// file up to its end.
  std::string sha256;
};

struct ManifestFile {
  std::uint64_t bytes = 0;
  /// As `sha256sum` prints it. Empty where parts cover the file; version 1 has it for all files.
  std::string sha256;
  std::vector<ManifestPart> parts;  ///< of safetensors files, in the order of their data
};

/// What a checkpoint holds. As text it is one line of JSON that begins with {"version":N, in this
/// version and all to come, and ends with the SHA-256 of the same text without that last entry:
///   {"version":2,"step":1000,"files":{"config.toml":{"bytes":3,"sha256":"..."},
///    "model.safetensors":{"bytes":9,"parts":[{"end":4,"sha256":"..."},
///     {"tensor":"fc.bias","end":9,"sha256":"..."}]}},"sha256":"..."}
/// Equal manifests are equal texts.
struct Manifest {
  int version = kCheckpointVersion;
  std::int64_t step = 0;
  std::map<std::string, ManifestFile> files;
};

std::string to_text(const Manifest& manifest);

/// Throws EnvironmentError: of a newer version. DataError naming `file`: not to the last bit as it
/// was written, or listing what no checkpoint holds.
Manifest parse_manifest(const std::string& file, std::string_view text);

/// Whether a checkpoint may hold a file of this name next to the manifest.
bool is_file_name(const std::string& name);

}  // namespace lockstep::io
