// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/io/checkpoint.h"
#include "core/io/checkpoint_names.h"
#include "core/io/checkpoint_state.h"
#include "core/io/folder.h"
#include "core/io/manifest.h"
#include "core/io/output_file.h"
#include "core/io/safetensors.h"
#include "core/io/weights.h"
#include "lockstep/weights.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

/// Hashes a safetensors file while it is written, and has each tensor in the layout of files.
class Recorder final : public WriteObserver {
 public:
  /// `views` are those of `tensors`, as they are stored.
  Recorder(const std::vector<CheckpointTensor>& tensors, const std::vector<TensorView>& views)
      : tensors_(tensors), views_(views) {}

  void make_bytes(const TensorView& view,
                  const std::function<void(std::span<const std::byte>)>& put) override {
    const CheckpointTensor& tensor = tensors_[std::size_t(&view - views_.data())];
    for_file_layout(*tensor.parameter, tensor.stored, [&](std::span<const float> piece) {
      put(std::as_bytes(piece));
    });
  }
  void on_bytes(std::span<const std::byte> bytes) override {
    hash_.update(bytes);
    file_.bytes += bytes.size();
  }
  void on_header_end() override { end_part({}); }
  void on_tensor_end(const TensorView& tensor) override { end_part(tensor.name); }

  ManifestFile result() {
    file_.sha256 = hash_.hex();
    return std::move(file_);
  }

 private:
  void end_part(const std::string& tensor) {
    file_.parts.push_back({tensor, file_.bytes, hash_.hex()});
  }

  const std::vector<CheckpointTensor>& tensors_;
  const std::vector<TensorView>& views_;
  Sha256 hash_;
  ManifestFile file_;
};

ManifestFile write_tensors(const fs::path& path, const std::vector<CheckpointTensor>& tensors) {
  std::vector<TensorView> views;
  for (const CheckpointTensor& tensor : tensors) {
    LOCKSTEP_ASSERT(tensor.parameter != nullptr && !tensor.name.empty());
    const auto dims = tensor.parameter->file_layout.file.dims();
    views.push_back(
        {tensor.name, ElementType::f32, {dims.begin(), dims.end()}, std::as_bytes(tensor.stored)});
  }
  Recorder recorder(tensors, views);
  write_safetensors(path, views, {{"format", "pt"}}, &recorder);
  return recorder.result();
}

ManifestFile write_text(const fs::path& path, const std::string& text) {
  write_file(path, text);
  return {text.size(), sha256_of(text), {}};
}

void write_files(const fs::path& folder, const CheckpointContent& content) {
  Manifest manifest;
  manifest.step = content.state.step;
  manifest.files[kModelFile] = write_tensors(folder / kModelFile, content.model);
  manifest.files[kOptimizerFile] = write_tensors(folder / kOptimizerFile, content.optimizer);
  if (!content.average.empty())
    manifest.files[kAverageFile] = write_tensors(folder / kAverageFile, content.average);
  std::map<std::string, std::string> texts = content.texts;
  texts[kStateFile] = to_text(content.state);
  for (const auto& [name, text] : texts) manifest.files[name] = write_text(folder / name, text);
  const std::string manifest_text = to_text(manifest);
  const std::size_t bytes = std::max(texts[kStateFile].size(), manifest_text.size());
  LOCKSTEP_CHECK(bytes <= kMaxTextBytes,
                 DataError,
                 "{}: its description takes {} bytes, at most {} can be read back",
                 as_written(folder.string()),
                 bytes,
                 kMaxTextBytes);
  write_file(folder / kManifestFile, manifest_text);
}

void attempt(const auto& action) noexcept {
  try {
    action();
  } catch (...) {  // what it follows up is thrown, or done
  }
}

/// Gives `unfinished`, which is whole, its name. Whatever fails before the folder is synced is
/// taken back.
void put_in_place(const fs::path& folder, std::int64_t step) {
  const fs::path target = folder / checkpoint_name(step),
                 unfinished = folder / unfinished_name(step);
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

void check(const CheckpointContent& content) {
  LOCKSTEP_ASSERT(content.state.step >= 0);
  for (const auto& [name, text] : content.texts)
    LOCKSTEP_ASSERT(is_file_name(name) && name != kModelFile && name != kOptimizerFile &&
                    name != kAverageFile && name != kStateFile);
}

}  // namespace

fs::path write_checkpoint(const fs::path& folder, const CheckpointContent& content) {
  check(content);
  const std::int64_t step = content.state.step;
  const fs::path unfinished = folder / unfinished_name(step);
  create_folders(folder);
  remove_tree(unfinished);
  try {
    create_folder(unfinished);
    write_files(unfinished, content);
    sync_folder(unfinished);
    put_in_place(folder, step);
  } catch (...) {
    attempt([&] { remove_tree(unfinished); });
    throw;
  }
  return folder / checkpoint_name(step);
}

}  // namespace lockstep::io
