// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/nccl_probe.h"

int main(int argc, char** argv) { return run_nccl_probe(argc, argv); }
