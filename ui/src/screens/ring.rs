//! The picture of the network: nodes by their ids on a ring, links between them.

use std::f32::consts::TAU;

use eframe::egui::{Color32, Pos2, Sense, Stroke, Ui, WidgetInfo, WidgetType, pos2, vec2};

use crate::format;
use crate::model::{Network, Role};
use crate::symbols;
use crate::theme;

/// The pointer hits a node from so far away.
const REACH: f32 = 10.0;

/// Draws it as a square of this size.
pub fn ring_ui(ui: &mut Ui, network: &Network, size: f32) {
    let palette = theme::palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(size, size), Sense::hover());
    let painter = ui.painter_at(rect);
    let middle = rect.center();
    let radius = size / 2.0 - 16.0;
    painter.circle_stroke(middle, radius, Stroke::new(1.0, palette.edge));
    let places: Vec<Pos2> = network
        .nodes
        .iter()
        .map(|node| {
            let (sin, cos) = (node.place * TAU).sin_cos();
            // Supernodes stand further in, so that their links are seen.
            let out = match node.role {
                Role::Supernode => 0.66,
                Role::Leaf | Role::Peer => 1.0,
            };
            pos2(middle.x + sin * radius * out, middle.y - cos * radius * out)
        })
        .collect();
    for &(from, to) in &network.links {
        if let (Some(&from_at), Some(&to_at)) = (places.get(from), places.get(to)) {
            let mine = network.nodes[from].me || network.nodes[to].me;
            let color = if mine { palette.accent } else { palette.edge };
            painter.line_segment([from_at, to_at], Stroke::new(1.0, color));
        }
    }
    for (node, &at) in network.nodes.iter().zip(&places) {
        let (size, color): (f32, Color32) = match (node.me, node.role) {
            (true, _) => (7.0, palette.accent),
            (false, Role::Supernode) => (5.5, palette.text),
            (false, Role::Leaf) => (4.0, palette.weak),
            (false, Role::Peer) => (5.0, palette.text),
        };
        painter.circle(at, size, color, Stroke::new(1.5, palette.card));
    }
    // Of very many, not all are drawn.
    let words = format!(
        "Picture of the network: {}, {} of them supernodes",
        format::counted(network.peers as u64, "peer", "peers"),
        network.supernodes
    );
    response.widget_info(|| WidgetInfo::labeled(WidgetType::Image, true, &words));
    let hit = response.hover_pos().and_then(|pointer| {
        let near = |at: &Pos2| at.distance(pointer) < REACH;
        places.iter().position(near)
    });
    if let Some(node) = hit.and_then(|number| network.nodes.get(number)) {
        let me = if node.me { ", this computer" } else { "" };
        response.on_hover_text_at_pointer(format!(
            "{}: {}{me}",
            node.id,
            symbols::role(node.role).word
        ));
    }
}
