// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "core/io/safetensors.h"

namespace lockstep::io::torch {

/// Writes `tensors` as torch.save() writes a state dict since PyTorch 1.6, an OrderedDict in their
/// order that torch.load(FILE, weights_only=True) reads, and flushes it to the disk (fsync). Each
/// tensor has a storage of its own on the CPU. Equal arguments give equal bytes. Throws DataError:
/// a name that repeats, data of another size than type and shape say. Throws EnvironmentError: the
/// file cannot be created or written; what was written of it is then removed.
void write_state_dict(const std::filesystem::path& path, std::span<const TensorView> tensors);

}  // namespace lockstep::io::torch
