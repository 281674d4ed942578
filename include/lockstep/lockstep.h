// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The C++ interface of Lockstep in one header.
#include "core/base/error.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"
#include "core/data/sources.h"
#include "core/graph/graph.h"
#include "kernels/cpu/cpu_backend.h"
