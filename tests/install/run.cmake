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

# The headers are those of include/lockstep and no others, and each compiles without another one before it, and without
# other libraries.
set(root ${WORK}/prefix/include)
file(GLOB_RECURSE headers RELATIVE ${root} ${root}/*)
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR}/../../include ABSOLUTE)
file(GLOB_RECURSE public RELATIVE ${source} ${source}/lockstep/*.h)
if(NOT headers STREQUAL public)
  message(FATAL_ERROR "installed headers: ${headers}\nexpected: ${public}")
endif()
foreach(header ${headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  set(file ${WORK}/alone/${name}.cpp)
  file(WRITE ${file} "#include <${header}>\n")
  list(APPEND alone ${file})
endforeach()
run(${COMPILER} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I ${root} ${alone})

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
# The library is linked, and nothing of the program or of what the program alone needs: neither by name, nor inside of an
# archive (CLI11 is headers alone).
file(STRINGS ${WORK}/consumer_build/build.ninja linked REGEX "LINK_LIBRARIES = ")
if(NOT linked MATCHES "liblockstep_training" OR linked MATCHES "protobuf")
  message(FATAL_ERROR "a program that uses the library links: ${linked}")
endif()
file(GLOB launcher_libraries RELATIVE ${BUILD}/launcher ${BUILD}/launcher/*.a)
if(NOT launcher_libraries)
  message(FATAL_ERROR "no libraries of the program in ${BUILD}/launcher")
endif()
foreach(library ${launcher_libraries})
  file(GLOB_RECURSE installed ${WORK}/prefix/${library})
  if(linked MATCHES "${library}" OR installed)
    message(FATAL_ERROR "a program that uses the library has the program's ${library}: ${linked}")
  endif()
endforeach()
find_program(NM NAMES nm llvm-nm REQUIRED)
run(${NM} --demangle ${WORK}/consumer_build/consumer)
if(NOT output MATCHES "lockstep::Trainer::fit" OR output MATCHES "[^\n]*(CLI::|google::protobuf)[^\n]*")
  message(FATAL_ERROR "a program that uses the library has no Trainer, or has of the program: ${CMAKE_MATCH_0}")
endif()
run(${WORK}/consumer_build/consumer ${WORK}/table.csv)
message("${output}")
if(NOT output MATCHES "100\\.00%")
  message(FATAL_ERROR "the installed library does not learn to tell three separated kinds apart")
endif()
