// SPDX-License-Identifier: Apache-2.0
#pragma once

// NCCL's header wants it, but nothing of it.
