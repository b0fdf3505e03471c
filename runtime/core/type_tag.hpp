// SPDX-License-Identifier: MIT
/// Casts from a base class without run-time type information, which the library is built without: it would be a hundredth of its size.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace vkformer {

/// A class is told from others by the address of its tag, which may be written, lest a linker make one of equal ones.
template <class T>
inline char kTypeTag = 0;

/// `base` as a T, or null: it is null itself, or its type() is another class's. A base class has
/// `virtual const void* type() const noexcept`, null where nobody asks; T overrides it to give &kTypeTag<T>.
template <class T, class Base>
T* cast_to(Base* base) noexcept {
    return base && base->type() == &kTypeTag<std::remove_const_t<T>> ? static_cast<T*>(base) : nullptr;
}

template <class T, class Base>
std::shared_ptr<T> cast_to(std::shared_ptr<Base> base) noexcept {
    T* const object = cast_to<T>(base.get());
    return object ? std::shared_ptr<T>(std::move(base), object) : nullptr;
}

}  // namespace vkformer
