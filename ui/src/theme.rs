//! Colours and sizes, named once, for light and dark.
//!
//! One accent colour says "working", amber "waiting or limited", red only "needs
//! you". Everything else is grey. Sizes are multiples of 8 points, or of 4 where
//! things belong closely together.

use eframe::egui::{
    self, Color32, Context, CornerRadius, FontFamily, FontId, Frame, Margin, Stroke, TextStyle,
    Theme, Ui, Visuals, vec2,
};

/// The step of the grid.
pub const GRID: f32 = 8.0;
/// Between things that belong together.
pub const GAP: f32 = 8.0;
/// Between groups.
pub const SECTION_GAP: f32 = 16.0;
/// Inside a card.
pub const CARD_PADDING: i8 = 12;
/// Of a card's corners.
pub const CARD_RADIUS: u8 = 6;
/// Of a button's and a field's corners.
pub const CONTROL_RADIUS: u8 = 4;
/// Height of what can be clicked.
pub const CONTROL_HEIGHT: f32 = 28.0;
/// The button that starts and pauses, and its text.
pub const MAIN_BUTTON: egui::Vec2 = vec2(120.0, 40.0);
/// See [`MAIN_BUTTON`].
pub const MAIN_BUTTON_TEXT: f32 = 16.0;
/// Height of a table's row.
pub const ROW_HEIGHT: f32 = 28.0;
/// Width of the rail.
pub const RAIL_WIDTH: f32 = 136.0;
/// Width of a page of text at most: longer lines are hard to read.
pub const TEXT_WIDTH: f32 = 720.0;
/// Text sizes: heading, body and monospace, small.
pub const HEADING_SIZE: f32 = 19.0;
/// See [`HEADING_SIZE`].
pub const BODY_SIZE: f32 = 14.0;
/// See [`HEADING_SIZE`].
pub const SMALL_SIZE: f32 = 12.0;
/// A screen with less room is drawn with less beside each other.
pub const NARROW: f32 = 480.0;
/// A screen with less room than this scrolls as a whole, even if it is a table.
pub const LOW: f32 = 360.0;
/// The smallest window, in points.
pub const MIN_WINDOW: [f32; 2] = [900.0, 600.0];
/// The window at a first start.
pub const FIRST_WINDOW: [f32; 2] = [1_120.0, 720.0];

/// The colours of one theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// Behind everything.
    pub background: Color32,
    /// The rail and the status bar.
    pub frame: Color32,
    /// Cards.
    pub card: Color32,
    /// Edges of cards and fields.
    pub edge: Color32,
    /// Fields, and behind graphs.
    pub field: Color32,
    /// Buttons.
    pub button: Color32,
    /// Buttons under the pointer.
    pub button_hovered: Color32,
    /// Text.
    pub text: Color32,
    /// The second line of things.
    pub weak: Color32,
    /// Working.
    pub accent: Color32,
    /// Behind what is chosen.
    pub accent_soft: Color32,
    /// Text on the accent colour.
    pub on_accent: Color32,
    /// Waiting or limited.
    pub amber: Color32,
    /// Needs you.
    pub red: Color32,
}

/// By day.
pub const LIGHT: Palette = Palette {
    background: Color32::from_rgb(0xf4, 0xf5, 0xf7),
    frame: Color32::from_rgb(0xff, 0xff, 0xff),
    card: Color32::from_rgb(0xff, 0xff, 0xff),
    edge: Color32::from_rgb(0xd8, 0xdc, 0xe1),
    field: Color32::from_rgb(0xfa, 0xfb, 0xfc),
    button: Color32::from_rgb(0xe9, 0xec, 0xf0),
    button_hovered: Color32::from_rgb(0xdd, 0xe2, 0xe8),
    text: Color32::from_rgb(0x1d, 0x23, 0x2b),
    weak: Color32::from_rgb(0x5a, 0x64, 0x70),
    accent: Color32::from_rgb(0x0a, 0x75, 0x5c),
    accent_soft: Color32::from_rgb(0xd5, 0xee, 0xe6),
    on_accent: Color32::WHITE,
    amber: Color32::from_rgb(0x96, 0x5c, 0x00),
    red: Color32::from_rgb(0xbf, 0x26, 0x26),
};

/// By night.
pub const DARK: Palette = Palette {
    background: Color32::from_rgb(0x14, 0x17, 0x1b),
    frame: Color32::from_rgb(0x1b, 0x1f, 0x24),
    card: Color32::from_rgb(0x1e, 0x23, 0x29),
    edge: Color32::from_rgb(0x35, 0x3c, 0x45),
    field: Color32::from_rgb(0x15, 0x19, 0x1e),
    button: Color32::from_rgb(0x2c, 0x33, 0x3b),
    button_hovered: Color32::from_rgb(0x38, 0x41, 0x4b),
    text: Color32::from_rgb(0xe4, 0xe8, 0xec),
    weak: Color32::from_rgb(0x9c, 0xa7, 0xb3),
    accent: Color32::from_rgb(0x3f, 0xc9, 0xa2),
    accent_soft: Color32::from_rgb(0x1c, 0x42, 0x39),
    on_accent: Color32::from_rgb(0x06, 0x22, 0x1a),
    amber: Color32::from_rgb(0xe8, 0xb3, 0x4b),
    red: Color32::from_rgb(0xff, 0x7f, 0x78),
};

/// The colours of the theme that is shown.
pub fn palette(ui: &Ui) -> &'static Palette {
    if ui.visuals().dark_mode {
        &DARK
    } else {
        &LIGHT
    }
}

/// A card: what belongs together, on a surface of its own.
pub fn card(ui: &Ui) -> Frame {
    let palette = palette(ui);
    Frame::new()
        .fill(palette.card)
        .stroke(Stroke::new(1.0, palette.edge))
        .corner_radius(CARD_RADIUS)
        .inner_margin(CARD_PADDING)
}

/// Gives both themes their looks. Called once, when the window is made.
pub fn install(ctx: &Context) {
    for (theme, palette) in [(Theme::Light, &LIGHT), (Theme::Dark, &DARK)] {
        ctx.style_mut_of(theme, |style| {
            style.visuals = visuals(palette, theme);
            style.text_styles = text_styles();
            style.spacing.item_spacing = vec2(GAP, GAP);
            style.spacing.button_padding = vec2(12.0, 4.0);
            style.spacing.interact_size = vec2(40.0, CONTROL_HEIGHT);
            style.spacing.icon_width = 18.0;
            style.spacing.icon_width_inner = 10.0;
            style.spacing.combo_width = 120.0;
            style.spacing.text_edit_width = 320.0;
            style.spacing.tooltip_width = 400.0;
            style.spacing.scroll = egui::style::ScrollStyle::solid();
            // A blinking cursor and moving scroll bars would draw the window all the time.
            style.visuals.text_cursor.blink = false;
            style.animation_time = 0.0;
            style.scroll_animation = egui::style::ScrollAnimation::none();
            style.interaction.selectable_labels = false;
        });
    }
    ctx.options_mut(|options| {
        // A system that does not say how it looks is taken for a light one.
        options.fallback_theme = Theme::Light;
        // The text size is a setting; the window's own shortcuts change that.
        options.zoom_with_keyboard = false;
    });
}

fn text_styles() -> std::collections::BTreeMap<TextStyle, FontId> {
    let of = |size, family| FontId::new(size, family);
    [
        (
            TextStyle::Heading,
            of(HEADING_SIZE, FontFamily::Proportional),
        ),
        (TextStyle::Body, of(BODY_SIZE, FontFamily::Proportional)),
        (TextStyle::Button, of(BODY_SIZE, FontFamily::Proportional)),
        (TextStyle::Small, of(SMALL_SIZE, FontFamily::Proportional)),
        (TextStyle::Monospace, of(SMALL_SIZE, FontFamily::Monospace)),
    ]
    .into()
}

fn visuals(palette: &Palette, theme: Theme) -> Visuals {
    let mut visuals = theme.default_visuals();
    visuals.panel_fill = palette.background;
    visuals.window_fill = palette.card;
    visuals.window_stroke = Stroke::new(1.0, palette.edge);
    visuals.window_corner_radius = CornerRadius::same(CARD_RADIUS);
    visuals.extreme_bg_color = palette.field;
    visuals.faint_bg_color = palette.card;
    visuals.hyperlink_color = palette.accent;
    visuals.warn_fg_color = palette.amber;
    visuals.error_fg_color = palette.red;
    visuals.weak_text_color = Some(palette.weak);
    visuals.selection.bg_fill = palette.accent_soft;
    visuals.selection.stroke = Stroke::new(1.0, palette.accent);
    visuals.slider_trailing_fill = true;
    let widgets = &mut visuals.widgets;
    let all = [
        (&mut widgets.noninteractive, palette.card, palette.edge),
        (&mut widgets.inactive, palette.button, palette.button),
        (&mut widgets.hovered, palette.button_hovered, palette.weak),
        (&mut widgets.active, palette.button_hovered, palette.accent),
        (&mut widgets.open, palette.button_hovered, palette.edge),
    ];
    for (widget, fill, edge) in all {
        widget.bg_fill = fill;
        widget.weak_bg_fill = fill;
        widget.bg_stroke = Stroke::new(1.0, edge);
        widget.fg_stroke = Stroke::new(1.0, palette.text);
        widget.corner_radius = CornerRadius::same(CONTROL_RADIUS);
        // Things that grow under the pointer make their neighbours look crooked.
        widget.expansion = 0.0;
    }
    // A check box and a field need an edge to be seen on a card.
    visuals.widgets.inactive.bg_stroke = Stroke::new(1.0, palette.edge);
    visuals
}

/// The margin of a screen.
pub const SCREEN_MARGIN: Margin = Margin::same(16);

#[cfg(test)]
mod tests {
    use super::*;

    /// Contrast as WCAG 2 defines it.
    fn contrast(one: Color32, other: Color32) -> f32 {
        let light = |color: Color32| {
            let linear = egui::Rgba::from(color);
            0.2126 * linear.r() + 0.7152 * linear.g() + 0.0722 * linear.b() + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn every_text_can_be_read() {
        for palette in [&LIGHT, &DARK] {
            for surface in [palette.background, palette.frame, palette.card] {
                for text in [
                    palette.text,
                    palette.weak,
                    palette.accent,
                    palette.amber,
                    palette.red,
                ] {
                    assert!(contrast(text, surface) >= 4.5, "{text:?} on {surface:?}");
                }
            }
            assert!(contrast(palette.on_accent, palette.accent) >= 4.5);
            assert!(contrast(palette.text, palette.accent_soft) >= 4.5);
            assert!(contrast(palette.text, palette.button_hovered) >= 4.5);
        }
    }
}
