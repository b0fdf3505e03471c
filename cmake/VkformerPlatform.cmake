# Takes from the list of sources `list` those of other systems: NAME_posix.cpp and NAME_windows.cpp are what NAME.hpp
# needs of a system. Those stay outside unity builds, since a system's headers have macros of any name.
function(vkformer_keep_platform list)
    set(others posix)
    if(NOT WIN32)
        set(others windows)
    endif()
    list(FILTER ${list} EXCLUDE REGEX "_${others}[.]cpp$")
    set(own ${${list}})
    list(FILTER own INCLUDE REGEX "_(posix|windows)[.]cpp$")
    set_source_files_properties(${own} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()
