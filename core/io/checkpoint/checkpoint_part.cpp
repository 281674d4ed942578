// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/checkpoint_part.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/base/rank_list.h"
#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "core/io/strict_json.h"
#include "core/io/weights.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

/// Hashed while it is still in the cache.
constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 18;  // elements
constexpr double kFirstPause = 0.001, kLastPause = 0.1;       // seconds

/// Pauses that grow: what is waited for comes soon, or takes long.
class Pauses {
 public:
  void sleep(SaveProgress& progress) {
    progress.require_open();
    progress.sleep(seconds_);
    seconds_ = std::min(2 * seconds_, kLastPause);
  }

 private:
  double seconds_ = kFirstPause;
};

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void read_part(const fs::path& file, TensorHashes& hashes) {
  const std::string name = file.string();
  const FileReader reader(file);
  LOCKSTEP_CHECK(reader.bytes() <= kMaxTextBytes, DataError, "{}: is too large", as_written(name));
  std::string text(std::size_t(reader.bytes()), '\0');
  reader.read(as_written(name), 0, std::as_writable_bytes(std::span(text)));
  try {
    constexpr int kMaxDepth = 2;  // {file: {tensor: hash}}
    const nlohmann::json part = parse_strict_json(text, name, kMaxDepth);
    for (const auto& [of, tensors] : part.items())
      for (const auto& [tensor, hash] : tensors.items())
        LOCKSTEP_CHECK(hashes[of].emplace(tensor, hash.get<std::string>()).second,
                       DataError,
                       "{}: tensor '{}' was written twice",
                       as_written(name),
                       as_written(tensor));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(
        fmt::format("{}: is not a valid part: {}", as_written(name), as_written(error.what())));
  }
}

}  // namespace

bool is_own(const CheckpointTensor& tensor) { return !tensor.stored.empty(); }

std::vector<TensorFile> tensor_files(const fs::path& folder, const CheckpointContent& content) {
  std::vector<TensorFile> files;
  const auto add = [&](const char* name, const std::vector<CheckpointTensor>& tensors) {
    std::vector<TensorEntry> entries;
    for (const CheckpointTensor& tensor : tensors) {
      LOCKSTEP_ASSERT(tensor.parameter != nullptr && !tensor.name.empty());
      const auto dims = tensor.parameter->file_layout.file.dims();
      entries.push_back(
          {.name = tensor.name, .type = ElementType::f32, .shape = {dims.begin(), dims.end()}});
    }
    files.push_back({name,
                     &tensors,
                     lay_out_safetensors((folder / name).string(), entries, {{"format", "pt"}})});
  };
  add(kModelFile, content.model);
  add(kOptimizerFile, content.optimizer);
  if (!content.average.empty()) add(kAverageFile, content.average);
  return files;
}

void write_own_tensors(const TensorFile& file,
                       PlacedFile& out,
                       std::map<std::string, std::string>& hashes,
                       SaveProgress& progress) {
  for (std::size_t i = 0; i < file.tensors->size(); ++i) {
    const CheckpointTensor& tensor = (*file.tensors)[i];
    if (!is_own(tensor)) continue;
    progress.require_open();
    Sha256 hash;
    std::uint64_t offset = file.layout.entries[i].offset_bytes;
    for_file_layout(*tensor.parameter, tensor.stored, [&](std::span<const float> piece) {
      while (!piece.empty()) {
        const auto chunk = std::as_bytes(piece.first(std::min(piece.size(), kWrittenAtOnce)));
        out.write_at(offset, chunk);
        hash.update(chunk);
        progress.add_bytes(chunk.size());
        offset += chunk.size();
        piece = piece.subspan(chunk.size() / sizeof(float));
      }
    });
    const TensorEntry& entry = file.layout.entries[i];
    LOCKSTEP_ASSERT(entry.name == tensor.name && offset == entry.offset_bytes + entry.bytes);
    hashes[tensor.name] = hash.hex();
  }
}

ManifestFile manifest_entry(const TensorFile& file,
                            const std::map<std::string, std::string>& hashes) {
  ManifestFile result{.bytes = file.layout.bytes, .sha256 = {}, .parts = {}};
  result.parts.push_back({"", file.layout.header.size(), sha256_of(file.layout.header)});
  for (const TensorEntry& entry : file.layout.entries) {
    const auto hash = hashes.find(entry.name);
    LOCKSTEP_CHECK(hash != hashes.end() || entry.bytes == 0,
                   DataError,
                   "{}: no rank has written tensor '{}'",
                   file.name,
                   as_written(entry.name));
    result.parts.push_back({entry.name,
                            entry.offset_bytes + entry.bytes,
                            hash == hashes.end() ? sha256_of("") : hash->second});
  }
  return result;
}

std::string part_name(int rank) { return fmt::format("part_{:05}.json", rank); }

void write_part(const fs::path& unfinished, int rank, const TensorHashes& hashes) {
  const fs::path temporary = unfinished / fmt::format("part_{:05}.tmp", rank);
  write_file(temporary, nlohmann::json(hashes).dump());
  rename_path(temporary, unfinished / part_name(rank));
}

void collect_parts(const fs::path& unfinished,
                   const CheckpointWriters& writers,
                   double patience_s,
                   SaveProgress& progress,
                   TensorHashes& hashes) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::vector<int> awaited = writers.others;
  for (Pauses pauses; !awaited.empty(); pauses.sleep(progress)) {
    const std::vector<std::string> names = names_in(unfinished);
    std::erase_if(awaited, [&](int rank) { return holds(names, part_name(rank)); });
    if (awaited.empty()) break;
    if (std::chrono::duration<double>(Clock::now() - begin).count() > patience_s)
      throw EnvironmentError(fmt::format("{}: {} {} not written {} within {:.0f} s",
                                         as_written(unfinished.string()),
                                         format_ranks(awaited),
                                         awaited.size() == 1 ? "has" : "have",
                                         awaited.size() == 1 ? "its part" : "their parts",
                                         patience_s),
                             "look at the file system as these ranks' hosts see it");
  }
  for (const int rank : writers.others) {
    const fs::path file = unfinished / part_name(rank);
    read_part(file, hashes);
    remove_tree(file);
  }
}

void wait_for_files(const fs::path& unfinished, SaveProgress& progress) {
  const fs::path folder = unfinished.parent_path();
  const std::string name = unfinished.filename().string();
  Pauses pauses;
  while (!holds(names_in(folder), name) || !holds(names_in(unfinished), kStateFile))
    pauses.sleep(progress);
  progress.set(SaveStage::writing);
}

}  // namespace lockstep::io
