# Installs the build into a folder of its own, then builds and runs the project in consumer/ against
# it, as a user would who has the installed package and not this tree.
#   cmake -D BUILD=... -D WORK=... -D CONFIG=... -D FLAGS=... -D COMPILER=... -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

# Where shells and man look for them.
foreach(file share/bash-completion/completions/lockstep share/zsh/site-functions/_lockstep
    share/fish/vendor_completions.d/lockstep.fish share/man/man1/lockstep.1 share/man/man1/lockstep-train.1)
  file(SIZE ${WORK}/prefix/${file} size)
  if(size LESS 500)
    message(FATAL_ERROR "${file} has ${size} bytes")
  endif()
endforeach()

# No installed header may include one that is not installed.
set(root ${WORK}/prefix/include)
file(GLOB_RECURSE headers RELATIVE ${root} ${root}/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n")
list(JOIN headers "" text)
file(WRITE ${WORK}/all_headers.cpp "${text}")
run(${COMPILER} -std=c++20 -fsyntax-only -I ${root} -I ${root}/lockstep ${WORK}/all_headers.cpp)

# The user copies the folder consumer/, all that it needs, and trains on a table of their own: three
# well separated kinds.
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer DESTINATION ${WORK})
set(table "length,width,kind\n")
foreach(row RANGE 1 60)
  math(EXPR kind "${row} % 3")
  math(EXPR length "10 * ${kind} + ${row} % 5")
  math(EXPR width "10 * ${kind} + ${row} % 7")
  string(APPEND table "${length},${width},kind${kind}\n")
endforeach()
file(WRITE ${WORK}/table.csv "${table}")

run(${CMAKE_COMMAND} -G Ninja -S ${WORK}/consumer -B ${WORK}/consumer_build
  -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_CXX_FLAGS=${FLAGS}
  # Nothing of the source tree may be needed.
  -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build ${WORK}/consumer_build)
# The library is linked, and nothing of the program or of what the program alone needs.
file(STRINGS ${WORK}/consumer_build/build.ninja linked REGEX "LINK_LIBRARIES = ")
if(NOT linked MATCHES "liblockstep_training" OR linked MATCHES "protobuf|liblockstep_(settings|doctor|report|output|commands)")
  message(FATAL_ERROR "a program that uses the library links: ${linked}")
endif()
file(GLOB_RECURSE installed RELATIVE ${root}/lockstep ${root}/lockstep/launcher/*.h)
if(installed)
  message(FATAL_ERROR "headers of the program are installed: ${installed}")
endif()
run(${WORK}/consumer_build/consumer ${WORK}/table.csv)
message("${output}")
if(NOT output MATCHES "100\\.00%")
  message(FATAL_ERROR "the installed library does not learn to tell three separated kinds apart")
endif()
