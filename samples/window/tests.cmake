# Every sample with a window runs headless on lavapipe (SwiftShader has no windows) for some frames, under the validation layer, and leaves a picture that is not blank.
# Not under sanitizers: the validation layer does not run there, and SDL and its drivers leak at the end.
if(VKFORMER_SANITIZE)
    return()
endif()
add_executable(sample_picture_check window/picture_check.cpp)
target_link_libraries(sample_picture_check PRIVATE sample_window)
if(WIN32)   # tests/windows/run.py runs them under Wine
    return()
endif()
find_program(VKFORMER_XVFB_RUN xvfb-run)
mark_as_advanced(VKFORMER_XVFB_RUN)
if(NOT VKFORMER_XVFB_RUN)
    message(STATUS "vkformer: no xvfb-run (Debian: xvfb, xauth): the samples with a window are not tested")
    return()
endif()

# add_window_test(name SAMPLE sample [CSV frames] ARGUMENTS arguments...): with CSV, it also writes one line for each frame.
function(add_window_test name)
    cmake_parse_arguments(PARSE_ARGV 1 argument "" "SAMPLE;CSV" "ARGUMENTS")
    string(MAKE_C_IDENTIFIER ${name} stem)
    set(picture ${CMAKE_CURRENT_BINARY_DIR}/${stem}.png)
    set(csv)
    set(csv_check)
    if(argument_CSV)
        set(csv --csv ${CMAKE_CURRENT_BINARY_DIR}/${stem}.csv)
        set(csv_check ${CMAKE_CURRENT_BINARY_DIR}/${stem}.csv ${argument_CSV})
    endif()
    add_test(NAME "samples: ${name}" COMMAND ${VKFORMER_XVFB_RUN} -a -s "-screen 0 1280x1024x24"
        $<TARGET_FILE:sample_${argument_SAMPLE}> --validation --device llvmpipe --screenshot ${picture} ${csv} ${argument_ARGUMENTS})
    add_test(NAME "samples: ${name}, to be seen" COMMAND sample_picture_check ${picture} ${csv_check})
    set_tests_properties("samples: ${name}" PROPERTIES
        ENVIRONMENT OPENBLAS_NUM_THREADS=1 TIMEOUT 180 FIXTURES_SETUP ${stem} RESOURCE_LOCK xvfb)
    set_tests_properties("samples: ${name}, to be seen" PROPERTIES FIXTURES_REQUIRED ${stem})
endfunction()

set(decoder ${PROJECT_SOURCE_DIR}/tests/goldens/decoder_text)
add_window_test("frame_budget in slices" SAMPLE frame_budget CSV 40
    ARGUMENTS --model ${decoder} --prompt "the cat" --max-tokens 8 --frames 40 --alone 10 --budget-us 2000)
add_window_test("frame_budget by the token" SAMPLE frame_budget CSV 20
    ARGUMENTS --model ${decoder} --prompt "the cat" --max-tokens 8 --frames 20 --alone 5 --budget-us 0)
add_window_test("frame_budget with the model of the repository" SAMPLE frame_budget CSV 40
    ARGUMENTS --frames 40 --alone 10 --budget-us 0)
# Its text is words, not places of the vocabulary as tests/goldens/decoder_text has them.
set_tests_properties("samples: frame_budget with the model of the repository" PROPERTIES FAIL_REGULAR_EXPRESSION "<t[0-9]+>")
add_window_test("heatmap of a date" SAMPLE heatmap
    ARGUMENTS --text "4. März 2021" --expect "2021-03-04" --budget-us 0 --frames 20)
add_window_test("image_in of a star" SAMPLE image_in
    ARGUMENTS --shape star --expect star --frames 6)
# A classifier of another size with oblong pictures, and a model without labels.
add_window_test("image_in with another model" SAMPLE image_in
    ARGUMENTS --model ${PROJECT_SOURCE_DIR}/tests/goldens/vision/vit --layer 0 --head 1 --frames 3)
add_window_test("image_in without labels" SAMPLE image_in
    ARGUMENTS --model ${PROJECT_SOURCE_DIR}/tests/goldens/vision/clip --frames 3)
