# Settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(LOCKSTEP_TESTS "Build the tests" ON)
set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror
  # GCC 12 takes fmt 9's fill character for an overflow.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  # GCC 12 sees overlaps in std::string that cannot be (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

# Bits are promised: a*b+c may become one FMA only where the code says so.
add_compile_options(-ffp-contract=off)

if(LOCKSTEP_SANITIZE)
  # GCC 12 takes std::regex for uninitialised under sanitizers.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
