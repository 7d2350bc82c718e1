//! The rail: the way from screen to screen.

use eframe::egui::{
    Align, AtomExt, Button, Layout, RichText, ScrollArea, Ui, Vec2, WidgetInfo, WidgetType, vec2,
};

use super::Scene;
use crate::command::Screen;
use crate::symbols;
use crate::theme;

const ICON_SIZE: Vec2 = vec2(20.0, 18.0);

/// Draws it.
pub fn rail_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    ui.spacing_mut().item_spacing.y = 4.0;
    let area = ScrollArea::vertical().id_salt("rail").auto_shrink(false);
    area.show(ui, |ui| screens_ui(ui, scene));
}

fn screens_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let palette = theme::palette(ui);
    ui.with_layout(Layout::top_down_justified(Align::LEFT), |ui| {
        for (number, screen) in Screen::ALL.into_iter().enumerate() {
            let chosen = scene.view.screen == screen;
            let symbol = symbols::screen(screen);
            let color = if chosen { palette.accent } else { palette.text };
            // The symbols differ in width; the words stand in line.
            let glyph = RichText::new(symbol.glyph)
                .color(color)
                .atom_size(ICON_SIZE);
            let text = RichText::new(symbol.word).color(color);
            let response = ui.add(
                Button::selectable(chosen, (glyph, text))
                    .min_size(vec2(0.0, theme::CONTROL_HEIGHT + 4.0)),
            );
            response.widget_info(|| {
                WidgetInfo::selected(WidgetType::Button, true, chosen, symbol.word)
            });
            if response
                .on_hover_text(format!("Ctrl+{}", number + 1))
                .clicked()
            {
                scene.go_to(screen);
            }
        }
    });
}
