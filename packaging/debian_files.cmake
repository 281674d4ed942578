# Run by CPack on what it has installed, before it makes the .debs: files where Debian has them, and as Debian
# packs them.
file(GLOB folders LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(folder ${folders})
  cmake_path(GET folder FILENAME component)
  set(share ${folder}/usr/share)
  if(NOT IS_DIRECTORY ${folder}/usr)
    continue()
  endif()

  # Debian's zsh looks there, and in site-functions only below /usr/local.
  if(IS_DIRECTORY ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  file(GLOB pages ${share}/man/man1/*.1)
  if(pages)
    execute_process(COMMAND gzip --no-name --best --force ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()

  if(component STREQUAL "development")
    set(package liblockstep-dev)
  else()
    set(package lockstep)
  endif()
  # The charting library, which the program holds.
  set(library "")
  if(CPACK_LOCKSTEP_CHART_JS AND component STREQUAL "runtime")
    set(library "
Files: usr/bin/lockstep
Copyright: The Lockstep maintainers
 2014-2022 Chart.js Contributors
License: Apache-2.0 and Expat
Comment: The pages that lockstep report writes carry Chart.js.

License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
 documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the
 rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
 persons to whom the Software is furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
 Software.
 .
 THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
 WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
 COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
 OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
")
  endif()
  # Every Debian has the text of the licence.
  file(REMOVE ${share}/doc/lockstep/LICENSE)
  file(WRITE ${share}/doc/${package}/copyright
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: lockstep

Files: *
Copyright: The Lockstep maintainers
License: Apache-2.0
${library}
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
endforeach()
