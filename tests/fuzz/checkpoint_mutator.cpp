// SPDX-License-Identifier: Apache-2.0
// Mutations of the target `checkpoint`: values and keys of manifest and state, bytes of the
// tensors, files that come and go. In half of the results the manifest has the sizes and sums of
// the files and its own seal, so that the code after the sums is reached.
#include "core/base/sha256.h"
#include "tests/fuzz/checkpoint_files.h"
#include "tests/fuzz/mutation.h"

namespace {

using namespace lockstep::fuzz;
using lockstep::sha256_of;

const std::vector<std::string_view> kCheckpointWords = words_of(
    "version step files bytes sha256 parts tensor end model.safetensors optimizer.safetensors "
    "state.json config.toml manifest.json ../state.json . samples wall_s train_loss evaluated "
    "val_loss val_accuracy best_val_loss best_step settings open_labels open_loss "
    "open_accuracy skipped_steps skipped_in_row left_out rollbacks loss_mean loss_variance "
    "loss_count rollback_base inf -inf a.momentum_buffer");

/// A part that ends at the header's end and one at the file's, with the sums of what is before
/// (version 1), or of each.
Json parts_of(const std::string& content, bool version_1, Random& random) {
  const std::uint64_t middle = random.below(content.size() + 1);
  const std::string rest = version_1 ? content : content.substr(middle);
  return {{{"end", middle}, {"sha256", sha256_of(std::string_view(content).substr(0, middle))}},
          {{"tensor", "a"}, {"end", content.size()}, {"sha256", sha256_of(rest)}}};
}

/// The manifest with what its files are now.
void put_files_right(Json& manifest, const CheckpointFiles& files, Random& random) {
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object())
    return;
  for (auto& [name, entry] : manifest["files"].items()) {
    const auto found = files.find(name);
    if (found == files.end() || !entry.is_object()) continue;
    const bool version_1 = manifest.contains("version") && manifest["version"] == 1;
    entry["bytes"] = found->second.size();
    if (entry.contains("parts")) entry["parts"] = parts_of(found->second, version_1, random);
    if (version_1 || !entry.contains("parts")) entry["sha256"] = sha256_of(found->second);
  }
}

std::string sealed_manifest(Json manifest) {
  if (!manifest.is_object()) return manifest.dump(-1, ' ', false, Json::error_handler_t::replace);
  manifest.erase("sha256");
  std::string text = manifest.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string digest = sha256_of(text);
  text.pop_back();
  return text + ",\"sha256\":\"" + digest + "\"}";
}

void mutate_text_file(std::string& content, Random& random) {
  std::optional<Json> value = read_json(content);
  if (!value || random.one_in(8)) {
    content = mutated_text(content);
    return;
  }
  mutate_json(*value, random, kCheckpointWords);
  content = json_text(*value, random);
}

/// Manifest and state say the same step, which both must.
void set_step(CheckpointFiles& files, Random& random) {
  const std::uint64_t step = random.one_in(2) ? 1000 : extreme_number(1000, random);
  for (const char* name : {"manifest.json", "state.json"}) {
    std::optional<Json> value = read_json(files[name]);
    if (!value || !value->is_object()) continue;
    (*value)["step"] = step;
    files[name] = json_text(*value, random);
  }
}

void mutate_files(CheckpointFiles& files, Random& random) {
  const std::string name(random.pick(kCheckpointFiles));
  switch (random.below(8)) {
    case 0:
      files.erase(name);
      break;
    case 1:
      files[name] = mutated_text(files[name]);
      break;
    case 2:
      set_step(files, random);
      break;
    case 3:
      mutate_text_file(files["manifest.json"], random);
      break;
    default:
      mutate_text_file(files["state.json"], random);
  }
}

Bytes mutate_checkpoint(const Bytes& input, Random& random) {
  CheckpointFiles files =
      checkpoint_files({reinterpret_cast<const char*>(input.data()), input.size()});
  if (files.empty()) return {};
  mutate_files(files, random);
  const bool right = random.one_in(2);
  std::optional<Json> manifest = read_json(files["manifest.json"]);
  if (right && manifest) {
    put_files_right(*manifest, files, random);
    files["manifest.json"] = sealed_manifest(*manifest);
  }
  const std::string result = checkpoint_input(files);
  return {result.begin(), result.end()};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_checkpoint);
}
