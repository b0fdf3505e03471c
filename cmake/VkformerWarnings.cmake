add_library(vkformer_warnings INTERFACE)

target_compile_options(vkformer_warnings INTERFACE
    $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
        $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
        -Wundef -Wimplicit-fallthrough>
    # g++ warns of every omitted field of a designated initialiser; omitted fields are the point of our option structs.
    $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wno-missing-field-initializers>
    $<$<CXX_COMPILER_ID:MSVC>:/W4>
)
# g++ warns of headers whose types have members from anonymous namespaces, and takes the sources of a unity build for headers.
if(CMAKE_UNITY_BUILD)
    target_compile_options(vkformer_warnings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(VKFORMER_WERROR)
    target_compile_options(vkformer_warnings INTERFACE
        $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Werror>
        # False alarms of g++ 12: std::string's operator+ overlaps itself; a parameter hides a member function of the same name
        # where its type happens to be a pointer to a function.
        $<$<CXX_COMPILER_ID:GNU>:-Wno-error=restrict -Wno-error=shadow>
        $<$<CXX_COMPILER_ID:MSVC>:/WX>
    )
endif()

# Instrumentation reaches every object and every program of this build through the same target.
if(VKFORMER_SANITIZE)
    target_compile_options(vkformer_warnings INTERFACE
        -fsanitize=${VKFORMER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    # -rdynamic: keep_modules.cpp has to be seen by the Vulkan loader.
    target_link_options(vkformer_warnings INTERFACE -fsanitize=${VKFORMER_SANITIZE} -rdynamic)
endif()
