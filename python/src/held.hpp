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
    /// Whose call runs on this thread, for callbacks that several models share; null: none does.
    static Watch* here() noexcept { return here_; }
    class Here {
    public:
        explicit Here(Watch& watch) noexcept : outer_(std::exchange(here_, &watch)) {}
        Here(const Here&) = delete;
        Here& operator=(const Here&) = delete;
        ~Here() { here_ = outer_; }

    private:
        Watch* outer_;
    };

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
    static inline thread_local Watch* here_ = nullptr;
    const Stop* stop_ = nullptr;
    std::exception_ptr error_;
};

/// What `call` results in, without the GIL.
template <class Call>
auto watched(Watch& watch, const Stop* stop, const Call& call) {
    watch.begin(stop);
    auto result = [&] {
        nb::gil_scoped_release no_gil;
        const Watch::Here here(watch);
        return call();
    }();
    watch.end();
    return value_of(std::move(result));
}

template <class Model>
class Held {
public:
    /// `options` are watched, by whichever of the model and its twins is at work.
    template <class Options>
    Held(const std::string& path, Options options, const nb::object& on_progress) : on_progress_(on_progress) {
        options.should_stop = [] { return Watch::here() && Watch::here()->should_stop(); };
        if (!on_progress.is_none())
            options.on_progress = [told = on_progress.ptr()](const std::string& message) {
                if (!Watch::here()) return;
                Watch::here()->call(true, [&] { return nb::handle(told)(message), true; });
            };
        model_.emplace(watched(*watch_, nullptr, [&] { return Model::load(path, options); }));
    }
    struct TwinOf {
        Held& held;
    };
    explicit Held(TwinOf of) : on_progress_(of.held.on_progress_) {
        Model& model = of.held.model();
        model_.emplace(watched(*watch_, nullptr, [&] { return model.twin(); }));
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
        return watched(*watch_, stop, [&] { return call(model); });
    }

    /// For Python's collector: what on_progress belongs to may be what the model belongs to.
    static PyType_Slot* slots() noexcept {
        static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                      {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                      {0, nullptr}};
        return slots;
    }

private:
    static int traverse(PyObject* self, visitproc visit, void* arg) {
        Py_VISIT(Py_TYPE(self));
        if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Held>(self)->on_progress_.ptr());
        return 0;
    }
    /// The model is not called any more.
    static int clear(PyObject* self) {
        if (nb::inst_ready(self)) nb::inst_ptr<Held>(self)->on_progress_ = nb::none();
        return 0;
    }
    bool is_foreign() const noexcept { return getpid() != process_; }

    pid_t process_ = getpid();
    std::unique_ptr<Watch> watch_ = std::make_unique<Watch>();
    nb::object on_progress_;  // the model calls it, its first call too
    std::optional<Model> model_;
};

}  // namespace vkformer::python
