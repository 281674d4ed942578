// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <span>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/checkpoint_part.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  const std::size_t bytes =
      std::max<std::uint64_t>(manifest.files.at(kStateFile).bytes, text.size());
  LOCKSTEP_CHECK(bytes <= kMaxTextBytes,
                 DataError,
                 "{}: its description takes {} bytes, at most {} can be read back",
                 as_written(folder.string()),
                 bytes,
                 kMaxTextBytes);
  write_file(folder / kManifestFile, text);
}

void write_files(const fs::path& folder, const CheckpointContent& content, SaveProgress& progress) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  progress.set(SaveStage::writing);
  Manifest manifest;
  manifest.step = content.state.step;
  const std::vector<TensorFile> files = tensor_files(folder, content);
  std::vector<PlacedFile> outs;
  for (const TensorFile& file : files) {
    outs.push_back(PlacedFile::create(folder / file.name, file.layout.bytes));
    outs.back().write_at(0, std::as_bytes(std::span(file.layout.header)));
  }
  const auto write_text = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    manifest.files[name] = {text.size(), sha256_of(text), {}};
  };
  for (const auto& [name, text] : content.texts) write_text(name, text);
  write_text(kStateFile, to_text(content.state));  // with which other ranks begin
  TensorHashes hashes;
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_own_tensors(files[i], outs[i], hashes[files[i].name], progress);
    outs[i].finish();
  }
  progress.set(SaveStage::part_written);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const CheckpointWriters& writers = content.writers;
  collect_parts(folder, writers, std::max(writers.patience_s, 3 * seconds), progress, hashes);
  for (const TensorFile& file : files)
    manifest.files[file.name] = manifest_entry(file, hashes[file.name]);
  write_manifest(folder, manifest);
}

void attempt(const auto& action) noexcept {
  try {
    action();
  } catch (...) {  // what it follows up is thrown, or done
  }
}

/// Gives `unfinished`, which is whole, its name. Whatever fails before the folder is synced is
/// taken back.
void put_in_place(const fs::path& folder, const fs::path& unfinished, std::int64_t step) {
  const fs::path target = folder / checkpoint_name(step);
  const fs::path replaced = folder / replaced_name(step);
  const bool replaces = name_exists(target);
  const bool exchanged = replaces && exchange_paths(unfinished, target);
  if (replaces && !exchanged) {
    remove_tree(replaced);
    rename_path(target, replaced);
  }
  bool renamed = exchanged;
  try {
    if (!exchanged) rename_path(unfinished, target);
    renamed = true;
    sync_folder(folder);
  } catch (...) {
    attempt([&] {
      if (exchanged) {
        exchange_paths(unfinished, target);
        return;
      }
      if (renamed) rename_path(target, unfinished);
      if (replaces) rename_path(replaced, target);
    });
    throw;
  }
  if (replaces) attempt([&] { remove_tree(exchanged ? unfinished : replaced); });
}

void remove_unfinished(const fs::path& folder) {
  for (const std::string& name : names_in(folder))
    if (is_temporary_name(name)) remove_tree(folder / name);
}

void check(const CheckpointContent& content) {
  LOCKSTEP_ASSERT(content.state.step >= 0 && content.writers.leads());
  LOCKSTEP_ASSERT(content.writers.others.empty() || !content.writers.id.empty());
  for (const auto& [name, text] : content.texts)
    LOCKSTEP_ASSERT(is_file_name(name) && name != kModelFile && name != kOptimizerFile &&
                    name != kAverageFile && name != kStateFile);
}

}  // namespace

fs::path write_checkpoint(const fs::path& folder,
                          const CheckpointContent& content,
                          SaveProgress* progress) {
  check(content);
  SaveProgress own;
  const std::int64_t step = content.state.step;
  const fs::path unfinished = folder / unfinished_name(step, content.writers.id);
  create_folders(folder);
  remove_tree(unfinished);
  // What earlier saves could not remove, as other ranks were still writing there.
  if (!content.writers.others.empty()) attempt([&] { remove_unfinished(folder); });
  try {
    create_folder(unfinished);
    write_files(unfinished, content, progress != nullptr ? *progress : own);
    sync_folder(unfinished);
    put_in_place(folder, unfinished, step);
  } catch (...) {
    attempt([&] { remove_tree(unfinished); });
    throw;
  }
  return folder / checkpoint_name(step);
}

void write_checkpoint_part(const fs::path& folder,
                           const CheckpointContent& content,
                           SaveProgress& progress) {
  const CheckpointWriters& writers = content.writers;
  LOCKSTEP_ASSERT(!writers.leads() && !writers.id.empty());
  const fs::path unfinished = folder / unfinished_name(content.state.step, writers.id);
  const std::vector<TensorFile> files = tensor_files(unfinished, content);
  wait_for_files(unfinished, progress);
  TensorHashes hashes;
  for (const TensorFile& file : files) {
    if (std::ranges::none_of(*file.tensors, is_own)) continue;
    PlacedFile out = PlacedFile::open(unfinished / file.name);
    write_own_tensors(file, out, hashes[file.name], progress);
    out.finish();
  }
  write_part(unfinished, writers.rank, hashes);
}

}  // namespace lockstep::io
