# From CMake 3.31 on a unity build takes CUDA files as well, whose names then clash.
file(READ ${COMMANDS} commands)
if(NOT commands MATCHES "kernels/cuda/([a-z_]+/)?[a-z_0-9]+\\.cu\"")
  message(FATAL_ERROR "no CUDA file is compiled by its own name")
endif()
string(REGEX MATCH "unity_[0-9]+_[a-z]+\\.cu\"" unit "${commands}")
if(unit)
  message(FATAL_ERROR "CUDA files are compiled in groups: ${unit}")
endif()
