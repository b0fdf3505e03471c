// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "vkformer/result.hpp"

namespace vkformer {

/// Of many steps one after the other the values, and of their errors the first: what follows a failed step takes what it finds, and its errors
/// are of no interest. A fraction of the code that VKFORMER_TRY is for each of them.
class FirstError {
public:
    /// `from`'s value goes to `to`, which stays as it is where there is none.
    template <class T>
    [[gnu::noinline]] void set(T& to, Result<T>&& from) {
        if (from)
            to = *std::move(from);
        else
            note(std::move(from).failure());
    }
    void check(Result<void>&& step) {
        if (!step) note(std::move(step).failure());
    }
    bool is_good() const noexcept { return static_cast<bool>(status_); }
    const Result<void>& status() const noexcept { return status_; }

private:
    void note(Failure&& failure) {
        if (status_) status_ = std::move(failure);
    }

    Result<void> status_;
};

}  // namespace vkformer
