// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/checkpoint/save_progress.h"
#include "core/io/output_file.h"
#include "core/io/safetensors.h"

/// Note [Writing together]. The files of a checkpoint are laid out by the model alone, so that
/// every rank knows where its tensors lie in them. Rank 0 creates the temporary folder and the
/// safetensors files in it, with their size and header, then the small files, state.json last.
/// Other ranks wait for that name. Then all write their tensors at their places and sync them. Each
/// other rank puts the SHA-256 of what it wrote into part_00003.json, by a rename, when all of it
/// is on the disk. Rank 0 waits for these, writes the manifest from them, removes them, and renames
/// the folder.
///
/// So what lies under the final name was written and synced by all, and no rank writes into it any
/// more. A rank that comes late finds no folder: it creates no file but its part's, and no two
/// saves have the same temporary name. What fails on a rank it tells rank 0 by other means
/// (Checkpointing), as a full disk takes no file. Names are looked for by listing a folder that is
/// there, as a client of a network file system asks the server again when it opens one, while it
/// remembers for long that a name was not there.
namespace lockstep::io {

/// SHA-256 of tensors, as files have them: by file and tensor.
using TensorHashes = std::map<std::string, std::map<std::string, std::string>>;

/// A safetensors file of a checkpoint.
struct TensorFile {
  const char* name = nullptr;
  const std::vector<CheckpointTensor>* tensors = nullptr;
  SafetensorsLayout layout;  ///< its entries are those of `tensors`
};

/// Those of `content`, which must outlive them; `folder` is named in errors.
std::vector<TensorFile> tensor_files(const std::filesystem::path& folder,
                                     const CheckpointContent& content);

/// Whether this rank writes `tensor`.
bool is_own(const CheckpointTensor& tensor);

/// Writes this rank's tensors at their places in `out`, and notes their hashes. Throws as
/// SaveProgress::require_open(), and EnvironmentError.
void write_own_tensors(const TensorFile& file,
                       PlacedFile& out,
                       std::map<std::string, std::string>& hashes,
                       SaveProgress& progress);

/// What the manifest says of `file`. Throws DataError: a tensor has no hash, as no rank wrote it.
ManifestFile manifest_entry(const TensorFile& file,
                            const std::map<std::string, std::string>& hashes);

/// "part_00003.json"
std::string part_name(int rank);
void write_part(const std::filesystem::path& unfinished, int rank, const TensorHashes& hashes);
/// Waits until every rank of `writers.others` has put its part into `unfinished`, adds what they
/// say to `hashes`, and removes them. Throws EnvironmentError: some have not after `patience_s`, of
/// which it names the ranks, or the save was ended; DataError: a part says what none would.
void collect_parts(const std::filesystem::path& unfinished,
                   const CheckpointWriters& writers,
                   double patience_s,
                   SaveProgress& progress,
                   TensorHashes& hashes);
/// On other ranks: waits until rank 0 has created all files of `unfinished`: SaveStage::writing.
/// Throws as SaveProgress::require_open().
void wait_for_files(const std::filesystem::path& unfinished, SaveProgress& progress);

}  // namespace lockstep::io
