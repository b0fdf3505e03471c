// SPDX-License-Identifier: MIT
/// A model of the library as Python holds it: one call at a time, without the GIL, with errors as exceptions.
#pragma once

#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "vkformer/result.hpp"

namespace vkformer::python {

namespace nb = nanobind;

/// Raises the exception of python/vkformer/_errors.py that the code has.
[[noreturn]] void raise(const Error& error);

template <class T>
T value_of(Result<T> result) {
    if (!result) raise(result.error());
    return *std::move(result);
}

/// Says to a call that nobody waits for its result any more. Any thread may set it.
class Stop {
public:
    void set() noexcept { is_set_ = true; }
    bool is_set() const noexcept { return is_set_; }

private:
    std::atomic<bool> is_set_ = false;
};

/// What comes back from Python while the library works: whether to go on, and what a callback has raised.
class Watch {
public:
    void begin(const Stop* stop) noexcept {
        stop_ = stop;
        error_ = nullptr;
    }
    /// Raises what was raised meanwhile.
    void end() {
        stop_ = nullptr;
        if (auto error = std::exchange(error_, nullptr)) std::rethrow_exception(std::move(error));
    }

    /// For the library's should_stop. Handlers of signals run here, and in the main thread alone.
    bool should_stop() {
        if ((stop_ && stop_->is_set()) || error_) return true;
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() == 0) return false;
        error_ = std::make_exception_ptr(nb::python_error());
        return true;
    }

    /// Calls Python from a callback of the library, through which no exception goes; `otherwise` where it raises or has raised.
    template <class T, class Call>
    T call(T otherwise, const Call& call) {
        nb::gil_scoped_acquire gil;
        if (error_) return otherwise;
        try {
            return call();
        } catch (...) {
            error_ = std::current_exception();
            return otherwise;
        }
    }

private:
    const Stop* stop_ = nullptr;
    std::exception_ptr error_;
};

template <class Model>
class Held {
public:
    /// `load` makes the Result of the model; `options` are watched.
    template <class Options>
    Held(const std::string& path, Options options, const nb::object& on_progress) : on_progress_(on_progress) {
        Watch* const watch = watch_.get();
        options.should_stop = [watch] { return watch->should_stop(); };
        if (!on_progress.is_none())
            options.on_progress = [watch, told = on_progress.ptr()](const std::string& message) {
                watch->call(true, [&] { return nb::handle(told)(message), true; });
            };
        watch->begin(nullptr);
        auto loaded = [&] {
            nb::gil_scoped_release no_gil;
            return Model::load(path, options);
        }();
        watch->end();
        model_.emplace(value_of(std::move(loaded)));
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    /// In a forked process the threads of drivers are gone, and nothing can be told to end: what is there is left alone.
    ~Held() {
        if (is_foreign() && model_) new Model(std::move(*model_));
    }

    void close() { model_.reset(); }
    bool is_closed() const noexcept { return !model_; }

    Model& model() {
        if (is_foreign())
            throw nb::builtin_exception(nb::exception_type::runtime_error,
                                        "the model was loaded before this process was forked and cannot be used in it: "
                                        "load it here, or start processes by \"spawn\"");
        if (!model_) throw nb::value_error("the model is closed");
        return *model_;
    }
    Watch& watch() noexcept { return *watch_; }

    /// What `call` makes of the model, without the GIL.
    template <class Call>
    auto run(const Stop* stop, const Call& call) {
        Model& model = this->model();
        watch_->begin(stop);
        auto result = [&] {
            nb::gil_scoped_release no_gil;
            return call(model);
        }();
        watch_->end();
        return value_of(std::move(result));
    }

private:
    bool is_foreign() const noexcept { return getpid() != process_; }

    pid_t process_ = getpid();
    std::unique_ptr<Watch> watch_ = std::make_unique<Watch>();  // the model's options point to it
    nb::object on_progress_;                                    // the model calls it, its first call too
    std::optional<Model> model_;
};

}  // namespace vkformer::python
