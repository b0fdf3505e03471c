// SPDX-License-Identifier: MIT
#include "heat_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include <cairo-svg.h>
#include <cairo.h>
#include <pango/pangocairo.h>

#include "core/output_file.hpp"
#include "core/try.hpp"

namespace vkformer::cli {
namespace {

// Lengths in points; a PNG has kPngScale pixels per point.
constexpr double kPngScale = 2;
constexpr double kMargin = 24, kPanelGap = 18, kLayerGap = 20, kSectionGap = 30, kLabelGap = 4;
constexpr double kMaxCell = 18, kMinCell = 7, kWantedPanel = 240;  // a panel of few tokens gets large cells
constexpr double kScaleWidth = 160, kScaleHeight = 10;
constexpr double kMaxPixels = 32767;  // cairo's largest image, either way
constexpr int kTitleSize = 15, kSectionSize = 12, kTextSize = 9;

struct Color {
    double r, g, b;
};

/// White to dark blue through green: lightness falls evenly, so that the order survives grey printing.
Color color_of(float weight) {
    static constexpr std::array<Color, 6> kStops = {{{1.00, 1.00, 1.00},
                                                     {0.85, 0.93, 0.80},
                                                     {0.55, 0.82, 0.75},
                                                     {0.22, 0.62, 0.74},
                                                     {0.12, 0.36, 0.64},
                                                     {0.05, 0.11, 0.36}}};
    if (!(weight >= 0)) return {0.85, 0.1, 0.1};  // NaN must not look like a weight
    const double at = std::min(1.0, static_cast<double>(weight)) * (kStops.size() - 1);
    const auto low = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
    const double t = at - static_cast<double>(low);
    const auto mix = [&](double a, double b) { return a + (b - a) * t; };
    return {mix(kStops[low].r, kStops[low + 1].r), mix(kStops[low].g, kStops[low + 1].g),
            mix(kStops[low].b, kStops[low + 1].b)};
}

using Surface = std::unique_ptr<cairo_surface_t, decltype([](cairo_surface_t* s) { cairo_surface_destroy(s); })>;
using Context = std::unique_ptr<cairo_t, decltype([](cairo_t* c) { cairo_destroy(c); })>;

struct Size {
    double width = 0, height = 0;
};

enum class Align : std::uint8_t { left, right, center };

/// Text and rectangles at positions in points.
class Canvas {
public:
    explicit Canvas(cairo_surface_t* surface, double scale = 1) : cairo_(cairo_create(surface)) {
        cairo_scale(cairo_.get(), scale, scale);
    }

    Size measure(const std::string& text, double size, bool bold = false) const {
        const Layout layout = make_layout(text, size, bold);
        int width = 0, height = 0;
        pango_layout_get_size(layout.get(), &width, &height);
        return {static_cast<double>(width) / PANGO_SCALE, static_cast<double>(height) / PANGO_SCALE};
    }

    /// The text's vertical middle is at y.
    void text(const std::string& text, double x, double y, double size, Align align = Align::left, bool bold = false) {
        draw_text(text, x, y, size, align, bold, 0);
    }

    /// Reading upwards from (x, y), where x is its middle.
    void text_upwards(const std::string& text, double x, double y, double size) {
        draw_text(text, x, y, size, Align::left, false, -std::numbers::pi / 2);
    }

    void fill(double x, double y, double width, double height, const Color& color) {
        cairo_set_source_rgb(cairo_.get(), color.r, color.g, color.b);
        cairo_rectangle(cairo_.get(), x, y, width, height);
        cairo_fill(cairo_.get());
    }

    void frame(double x, double y, double width, double height) {
        cairo_set_source_rgb(cairo_.get(), 0.45, 0.45, 0.45);
        cairo_set_line_width(cairo_.get(), 0.7);
        cairo_rectangle(cairo_.get(), x, y, width, height);
        cairo_stroke(cairo_.get());
    }

    cairo_status_t status() const { return cairo_status(cairo_.get()); }

private:
    using Layout = std::unique_ptr<PangoLayout, decltype([](PangoLayout* l) { g_object_unref(l); })>;

    Layout make_layout(const std::string& text, double size, bool bold) const {
        Layout layout(pango_cairo_create_layout(cairo_.get()));
        PangoFontDescription* font = pango_font_description_from_string(bold ? "Sans Bold" : "Sans");
        pango_font_description_set_absolute_size(font, size * PANGO_SCALE);
        pango_layout_set_font_description(layout.get(), font);
        pango_font_description_free(font);
        pango_layout_set_text(layout.get(), text.data(), static_cast<int>(text.size()));
        return layout;
    }

    void draw_text(const std::string& text, double x, double y, double size, Align align, bool bold, double angle) {
        const Size extent = measure(text, size, bold);
        const Layout layout = make_layout(text, size, bold);
        const double shift = align == Align::left ? 0 : align == Align::right ? extent.width : extent.width / 2;
        cairo_save(cairo_.get());
        cairo_translate(cairo_.get(), x, y);
        cairo_rotate(cairo_.get(), angle);
        cairo_move_to(cairo_.get(), -shift, -extent.height / 2);
        cairo_set_source_rgb(cairo_.get(), 0.1, 0.1, 0.1);
        pango_cairo_show_layout(cairo_.get(), layout.get());
        cairo_restore(cairo_.get());
    }

    Context cairo_;
};

/// Where the parts of a section go.
struct SectionLayout {
    double cell = 0, label_size = 0;
    double queries_width = 0, keys_height = 0;  // of the token labels
    double panel_width = 0, panel_height = 0;
    double width = 0, height = 0, layer_height = 0, heading_height = 0;
};

SectionLayout lay_out(const HeatMapSection& section, const Canvas& canvas) {
    SectionLayout at;
    const double tokens = static_cast<double>(std::max({section.queries.size(), section.keys.size(), std::size_t{1}}));
    at.cell = std::clamp(kWantedPanel / tokens, kMinCell, kMaxCell);
    at.label_size = std::min<double>(kTextSize, at.cell * 0.9);
    for (const std::string& token : section.queries)
        at.queries_width = std::max(at.queries_width, canvas.measure(token, at.label_size).width);
    for (const std::string& token : section.keys)
        at.keys_height = std::max(at.keys_height, canvas.measure(token, at.label_size).width);
    std::size_t heads = 0;
    double title_width = 0;
    for (const auto& layer : section.layers) {
        heads = std::max(heads, layer.size());
        for (const HeatMap& map : layer)
            title_width = std::max(title_width, canvas.measure(map.title, kTextSize, true).width);
    }
    at.panel_width = std::max(at.cell * static_cast<double>(section.keys.size()), title_width);
    at.panel_height = at.cell * static_cast<double>(section.queries.size());
    at.layer_height = kTextSize * 2 + at.keys_height + kLabelGap + at.panel_height;
    at.heading_height = kSectionSize * 1.6 + kTextSize * 1.8;
    const double heads_width = static_cast<double>(heads) * (at.panel_width + kPanelGap) - kPanelGap;
    const Size title = canvas.measure(section.title, kSectionSize, true);
    const Size axes = canvas.measure(section.query_axis + section.key_axis, kTextSize);
    at.width = std::max({at.queries_width + kLabelGap + heads_width, title.width, axes.width + 60});
    at.height =
        at.heading_height + static_cast<double>(section.layers.size()) * (at.layer_height + kLayerGap) - kLayerGap;
    return at;
}

void draw_map(const HeatMap& map, const HeatMapSection& section, const SectionLayout& at, double x, double y,
              Canvas& canvas) {
    canvas.text(map.title, x, y + kTextSize * 0.8, kTextSize, Align::left, true);
    const double top = y + kTextSize * 2 + at.keys_height + kLabelGap;
    const double width = at.cell * static_cast<double>(section.keys.size());
    for (std::size_t key = 0; key < section.keys.size(); ++key)
        canvas.text_upwards(section.keys[key], x + at.cell * (static_cast<double>(key) + 0.5), top - kLabelGap,
                            at.label_size);
    for (std::size_t query = 0; query < section.queries.size(); ++query)
        for (std::size_t key = 0; key < section.keys.size(); ++key)
            canvas.fill(x + at.cell * static_cast<double>(key), top + at.cell * static_cast<double>(query), at.cell,
                        at.cell, color_of(map.weights[query * section.keys.size() + key]));
    canvas.frame(x, top, width, at.panel_height);
}

void draw_section(const HeatMapSection& section, const SectionLayout& at, double x, double y, Canvas& canvas) {
    canvas.text(section.title, x, y + kSectionSize * 0.8, kSectionSize, Align::left, true);
    canvas.text("rows: " + section.query_axis + "   columns: " + section.key_axis, x,
                y + kSectionSize * 1.6 + kTextSize * 0.6, kTextSize);
    double top = y + at.heading_height;
    const double left = x + at.queries_width + kLabelGap;
    for (const auto& layer : section.layers) {
        const double cells_top = top + kTextSize * 2 + at.keys_height + kLabelGap;
        for (std::size_t query = 0; query < section.queries.size(); ++query)
            canvas.text(section.queries[query], left - kLabelGap,
                        cells_top + at.cell * (static_cast<double>(query) + 0.5), at.label_size, Align::right);
        for (std::size_t head = 0; head < layer.size(); ++head)
            draw_map(layer[head], section, at, left + static_cast<double>(head) * (at.panel_width + kPanelGap), top,
                     canvas);
        top += at.layer_height + kLayerGap;
    }
}

void draw_scale(double right, double y, Canvas& canvas) {
    constexpr int kSteps = 80;
    const double left = right - kScaleWidth;
    for (int i = 0; i < kSteps; ++i)
        canvas.fill(left + kScaleWidth * i / kSteps, y, kScaleWidth / kSteps + 0.5, kScaleHeight,
                    color_of(static_cast<float>(i) / (kSteps - 1)));
    canvas.frame(left, y, kScaleWidth, kScaleHeight);
    const double label = y + kScaleHeight + kTextSize * 0.9;
    canvas.text("0", left, label, kTextSize);
    canvas.text("attention weight", left + kScaleWidth / 2, label, kTextSize, Align::center);
    canvas.text("1", right, label, kTextSize, Align::right);
}

double heading_height() { return kTitleSize * 1.7 + kTextSize * 2.2; }

void draw_page(const HeatMapPage& page, const std::vector<SectionLayout>& sections, const Size& size, Canvas& canvas) {
    canvas.fill(0, 0, size.width, size.height, {1, 1, 1});
    canvas.text(page.title, kMargin, kMargin + kTitleSize * 0.7, kTitleSize, Align::left, true);
    canvas.text(page.subtitle, kMargin, kMargin + kTitleSize * 1.7 + kTextSize * 0.6, kTextSize);
    draw_scale(size.width - kMargin, kMargin, canvas);
    double y = kMargin + heading_height() + kSectionGap / 2;
    for (std::size_t i = 0; i < page.sections.size(); ++i) {
        draw_section(page.sections[i], sections[i], kMargin, y, canvas);
        y += sections[i].height + kSectionGap;
    }
}

Size page_size(const HeatMapPage& page, const std::vector<SectionLayout>& sections, const Canvas& canvas) {
    const double title =
        std::max(canvas.measure(page.title, kTitleSize, true).width, canvas.measure(page.subtitle, kTextSize).width);
    Size size = {title + kScaleWidth + 3 * kMargin, 2 * kMargin + heading_height() + kSectionGap / 2};
    for (const SectionLayout& section : sections) {
        size.width = std::max(size.width, section.width + 2 * kMargin);
        size.height += section.height + kSectionGap;
    }
    size.height -= kSectionGap;
    return {std::ceil(size.width), std::ceil(size.height)};
}

/// What cairo calls with the file's bytes.
cairo_status_t append_bytes(void* picture, const unsigned char* data, unsigned int size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    auto& all = *static_cast<std::vector<std::byte>*>(picture);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Result<void> draw_heat_maps(const HeatMapPage& page, PictureFormat format, const std::filesystem::path& path) {
    const auto failed = [&](cairo_status_t status) {
        return Error{ErrorCode::InvalidArgument,
                     "cannot draw " + path.string() + ": " + cairo_status_to_string(status)};
    };
    std::vector<std::byte> picture;
    const Surface scratch(cairo_recording_surface_create(CAIRO_CONTENT_COLOR, nullptr));
    const Canvas ruler(scratch.get());
    std::vector<SectionLayout> sections;
    for (const HeatMapSection& section : page.sections) sections.push_back(lay_out(section, ruler));
    const Size size = page_size(page, sections, ruler);

    if (format == PictureFormat::svg) {
        const Surface surface(cairo_svg_surface_create_for_stream(append_bytes, &picture, size.width, size.height));
        Canvas canvas(surface.get());
        draw_page(page, sections, size, canvas);
        cairo_surface_finish(surface.get());
        if (const auto status = cairo_surface_status(surface.get()); status != CAIRO_STATUS_SUCCESS)
            return failed(status);
        return write_file(path, picture);
    }
    if (std::max(size.width, size.height) * kPngScale > kMaxPixels)
        return Error{ErrorCode::InvalidArgument, "the picture would be larger than " +
                                                     std::to_string(static_cast<int>(kMaxPixels)) +
                                                     " pixels; choose with --kind, --layer or --head, or write SVG"};
    const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(size.width * kPngScale),
                                                     static_cast<int>(size.height * kPngScale)));
    Canvas canvas(surface.get(), kPngScale);
    draw_page(page, sections, size, canvas);
    if (canvas.status() != CAIRO_STATUS_SUCCESS) return failed(canvas.status());
    const auto status = cairo_surface_write_to_png_stream(surface.get(), append_bytes, &picture);
    if (status != CAIRO_STATUS_SUCCESS) return failed(status);
    return write_file(path, picture);
}

}  // namespace vkformer::cli
