// Uses a function that is compiled into the library and the types of the public headers; returns 0 if they are what they claim.
#include <vkformer/result.hpp>
#include <vkformer/vulkan.hpp>

#include <iostream>

vkformer::Result<int> half(int number) {
    if (number % 2 != 0) return vkformer::Error{.message = "odd"};
    return number / 2;
}

int main() {
    const vkformer::AdoptedDevice device;
    std::cout << vkformer::to_string(vkformer::ErrorCode::ShapeMismatch) << "\n";
    const bool works = half(4).value() == 2 && !half(3) && device.device == VK_NULL_HANDLE &&
                       vkformer::to_string(vkformer::ErrorCode::ShapeMismatch) == "shape_mismatch";
    return works ? 0 : 1;
}
