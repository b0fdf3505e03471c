# The ZIP of a build for Windows under this machine's Wine, on the CPU: `ctest --preset windows`. Everything else, vkformer_tests.exe too, needs a
# Vulkan behind Wine, which run.py finds in a folder.
find_program(VKFORMER_WINE wine)
mark_as_advanced(VKFORMER_WINE)
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT VKFORMER_WINE OR NOT Python3_FOUND)
    message(STATUS "vkformer: the build for Windows is not tested: there is no wine (Debian: wine) or no python3")
    return()
endif()
add_test(NAME "windows: the ZIP is packed" COMMAND ${CMAKE_CPACK_COMMAND} -G ZIP WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
add_test(NAME "windows: what is in it runs under Wine" COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py
    --build ${PROJECT_BINARY_DIR} --wine ${VKFORMER_WINE})
set_tests_properties("windows: the ZIP is packed" PROPERTIES FIXTURES_SETUP windows_zip)
set_tests_properties("windows: what is in it runs under Wine" PROPERTIES FIXTURES_REQUIRED windows_zip TIMEOUT 600)
