// SPDX-License-Identifier: Apache-2.0
// Mutations of targets that parse one JSON text. Keys and strings come from those in the text and
// from the keys of the files that Lockstep writes. A manifest gets a new seal half of the time.
#include "core/base/sha256.h"
#include "tests/fuzz/mutation.h"

namespace {

using namespace lockstep::fuzz;

const std::vector<std::string_view> kJsonWords = words_of(
    "step samples wall_s train_loss evaluated val_loss val_accuracy best_step best_val_loss "
    "settings open_labels open_loss open_accuracy left_out skipped_steps skipped_in_row "
    "rollbacks rollback_base loss_mean loss_variance loss_count version files bytes sha256 "
    "parts tensor end model.safetensors optimizer.safetensors state.json config.toml "
    "manifest.json ../x inf -inf nan dtype shape feature categories name kind numeric mean "
    "deviation missing embedded one-hot category separator columns targets dropped id_columns "
    "named_alike place width height channels short_side resize crop center texts task input "
    "target classes ignore_index scale shift table class_names image source tokenizer "
    "truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model vocab "
    "merges id content single_word lstrip rstrip normalized special BPE ByteLevel Sequence "
    "pretokenizers add_prefix_space use_regex dropout unk_token byte_fallback ignore_merges Digits "
    "individual_digits Split pattern Regex behavior Isolated invert");

/// The text with the SHA-256 that fits it as its last entry.
std::string sealed_again(Json value, Random& random) {
  value.erase("sha256");
  std::string text = json_text(value, random);
  const std::string digest = lockstep::sha256_of(text);
  text.pop_back();
  return text + ",\"sha256\":\"" + digest + "\"}";
}

Bytes mutate_json_text(const Bytes& input, Random& random) {
  std::optional<Json> value =
      read_json({reinterpret_cast<const char*>(input.data()), input.size()});
  if (!value) return {};
  const std::size_t changes = 1 + random.below(3);
  for (std::size_t i = 0; i < changes; ++i) mutate_json(*value, random, kJsonWords);
  const bool seal = value->is_object() && value->contains("sha256") && random.one_in(2);
  const std::string text = seal ? sealed_again(*value, random) : json_text(*value, random);
  return {text.begin(), text.end()};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_json_text);
}
