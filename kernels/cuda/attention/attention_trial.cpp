// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_trial.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention/attention_difference.h"
#include "kernels/cuda/device/cuda_check.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

constexpr const char* kTrial = "trial of an attention";
/// Of a result that is compared on the host at a time.
constexpr std::size_t kComparedBytes = std::size_t(16) << 20;

bool is_forward(const FusedAttentionSpec& spec) { return spec.pass == AttentionPass::forward; }

std::size_t result_bytes(const FusedAttentionSpec& spec) {
  return is_forward(spec) ? spec.y_bytes() : spec.qkv_bytes();
}

template <typename T>
void copy_to_host(std::vector<T>& to, const TrialMemory& from, std::size_t first) {
  check(cudaMemcpy(to.data(),
                   from.data() + first * sizeof(T),
                   to.size() * sizeof(T),
                   cudaMemcpyDeviceToHost),
        kTrial);
}

/// log n_i, where query i sees n_i keys: weights e^(score - lse) are as large as a softmax's.
void fill_lse(const FusedAttentionSpec& spec, const TrialMemory& lse) {
  std::vector<float> values(std::size_t(spec.rows()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t token = std::int64_t(i) % spec.tokens;
    values[i] = std::log(float(spec.causal ? token + 1 : spec.tokens));
  }
  check(cudaMemcpy(lse.data(), values.data(), spec.lse_bytes(), cudaMemcpyHostToDevice), kTrial);
  wait_for_copies();
}

}  // namespace

std::size_t AttentionTrial::workspace_bytes(
    const OwnAttention& own, std::span<const std::unique_ptr<FusedAttention>> others) {
  std::size_t bytes = own.workspace_bytes;
  for (const auto& other : others) bytes = std::max(bytes, other->workspace_bytes());
  return bytes;
}

bool AttentionTrial::fits(const FusedAttentionSpec& spec, std::size_t workspace_bytes) {
  const std::size_t gradients = is_forward(spec) ? 0 : spec.y_bytes() + spec.qkv_bytes();
  return spec.qkv_bytes() + spec.y_bytes() + 2 * spec.lse_bytes() + gradients + result_bytes(spec) +
             workspace_bytes <=
         free_device_bytes() / 2;
}

AttentionTrial::AttentionTrial(const Device& device,
                               const FusedAttentionSpec& spec,
                               const OwnAttention& own,
                               std::span<const std::unique_ptr<FusedAttention>> others)
    : device_(device),
      spec_(spec),
      own_(own),
      others_(others),
      qkv_(spec.qkv_bytes()),
      y_(spec.y_bytes()),
      lse_(spec.lse_bytes()),
      dy_(is_forward(spec) ? 0 : spec.y_bytes()),
      dqkv_(is_forward(spec) ? 0 : spec.qkv_bytes()),
      workspace_(workspace_bytes(own, others)),
      own_result_(result_bytes(spec)),
      own_lse_(is_forward(spec) ? spec.lse_bytes() : 0),
      arguments_{.qkv = qkv_.data(),
                 .y = y_.data(),
                 .lse = reinterpret_cast<float*>(lse_.data()),
                 .dy = dy_.data(),
                 .dqkv = dqkv_.data(),
                 .workspace = workspace_.data()},
      why_refused_(1 + others.size()) {
  // Each another: dy . y is to be a sum of random signs.
  qkv_.fill(DType::bf16, 1);
  if (is_forward(spec)) return;
  y_.fill(DType::bf16, 2);
  dy_.fill(DType::bf16, 3);
  fill_lse(spec, lse_);
}

void AttentionTrial::run(std::size_t candidate) {
  if (candidate == 0)
    own_.run(arguments_);
  else
    others_[candidate - 1]->run(arguments_);
}

std::uint64_t AttentionTrial::result_hash(std::size_t candidate) {
  const bool forward = is_forward(spec_);
  const TrialMemory& result = forward ? y_ : dqkv_;
  // Another filling each time: what a candidate leaves unwritten differs.
  const int filling = fillings_++ % 2 == 0 ? 0 : 0x3f;
  try {
    check(cudaMemsetAsync(result.data(), filling, result.bytes(), device_.compute), kTrial);
    if (forward)
      check(cudaMemsetAsync(lse_.data(), filling, lse_.bytes(), device_.compute), kTrial);
    run(candidate);
    std::uint64_t hash = device_hash(device_, result, result.bytes());
    if (forward) hash ^= device_hash(device_, lse_, lse_.bytes());
    if (candidate == 0) {
      check(cudaMemcpy(own_result_.data(), result.data(), result.bytes(), cudaMemcpyDeviceToDevice),
            kTrial);
      if (forward)
        check(cudaMemcpy(own_lse_.data(), lse_.data(), lse_.bytes(), cudaMemcpyDeviceToDevice),
              kTrial);
      wait_for_copies();
    } else if (const std::string why = difference(); !why.empty()) {
      throw Error("it differs from the own kernel: " + why);
    }
    return hash;
  } catch (const Error& error) {
    why_refused_[candidate] = error.what();
    throw;
  }
}

double AttentionTrial::seconds(std::size_t candidate) {
  return device_seconds(device_, [&] { run(candidate); });
}

std::string AttentionTrial::difference() const {
  AttentionDifference found(spec_);
  const TrialMemory& result = is_forward(spec_) ? y_ : dqkv_;
  const std::size_t width = std::size_t(spec_.heads * spec_.depth),
                    rows = result.bytes() / 2 / width,
                    most = std::max<std::size_t>(1, kComparedBytes / 2 / width);
  for (std::size_t first = 0; first < rows; first += most) {
    std::vector<std::uint16_t> own(std::min(most, rows - first) * width), other(own.size());
    copy_to_host(own, own_result_, first * width);
    copy_to_host(other, result, first * width);
    found.add(std::int64_t(first), own, other);
  }
  if (is_forward(spec_)) {
    std::vector<float> own(std::size_t(spec_.rows())), other(own.size());
    copy_to_host(own, own_lse_, 0);
    copy_to_host(other, lse_, 0);
    found.add_lse(own, other);
  }
  return found.why_not();
}

}  // namespace lockstep::cuda
