//! The ten things of the embedded data set, as parts in a frame from -1 to 1, x right, y down.
//!
//! In: a class and a random generator. Out: parts, from back to front. Proportions and details differ from picture
//! to picture; what makes the thing what it is doesn't. None is the mirror image of another: flips are allowed.

use std::f32::consts::{PI, TAU};

use super::drawing::{Paint, Part, Point, Rng, Shape};
use Paint::{Accent, Body, Ink, Light, Trim};

/// The classes, sorted by name.
pub const CLASSES: [&str; 10] =
    ["bicycle", "butterfly", "car", "fish", "flower", "house", "mug", "sailboat", "tree", "umbrella"];

/// The parts of one thing of `class`.
pub(super) fn parts(class: usize, rng: &mut Rng) -> Vec<Part> {
    let draw = [bicycle, butterfly, car, fish, flower, house, mug, sailboat, tree, umbrella];
    draw[class](rng)
}

fn polygon(paint: Paint, corners: &[Point]) -> Part {
    Part { shape: Shape::Polygon(corners.to_vec()), paint }
}

fn ellipse(paint: Paint, center: Point, radii: Point, angle: f32) -> Part {
    Part { shape: Shape::Ellipse { center, radii, angle }, paint }
}

fn disc(paint: Paint, center: Point, radius: f32) -> Part {
    ellipse(paint, center, [radius; 2], 0.0)
}

fn stroke(paint: Paint, from: Point, to: Point, half_width: f32) -> Part {
    Part { shape: Shape::Stroke { from, to, half_width }, paint }
}

fn ring(paint: Paint, center: Point, radius: f32, half_width: f32) -> Part {
    Part { shape: Shape::Ring { center, radius, half_width }, paint }
}

/// The point at `angle` on a circle.
fn polar(center: Point, radius: f32, angle: f32) -> Point {
    [center[0] + radius * angle.cos(), center[1] + radius * angle.sin()]
}

/// A rectangle between two corners.
fn rectangle(paint: Paint, [left, top]: Point, [right, bottom]: Point) -> Part {
    polygon(paint, &[[left, top], [right, top], [right, bottom], [left, bottom]])
}

fn bicycle(rng: &mut Rng) -> Vec<Part> {
    let radius = rng.range(0.36, 0.44);
    let (rear, front) = ([-0.56, 0.32], [0.56, 0.32]);
    let (pedals, saddle, head) = ([-0.08, 0.32], [-0.26, -0.3], [0.4, -0.3]);
    let tube = rng.range(0.05, 0.075);
    let mut parts = vec![ring(Ink, rear, radius, 0.055), ring(Ink, front, radius, 0.055)];
    let num_spokes = 3 + rng.below(4);
    for hub in [rear, front] {
        let spokes = (0..num_spokes).map(|i| polar(hub, radius, TAU * i as f32 / num_spokes as f32));
        parts.extend(spokes.map(|end| stroke(Light, hub, end, 0.015)));
    }
    let tubes = [(rear, pedals), (rear, saddle), (saddle, pedals), (pedals, head), (saddle, head), (head, front)];
    parts.extend(tubes.map(|(from, to)| stroke(Body, from, to, tube)));
    parts.push(stroke(Ink, [-0.42, -0.4], [-0.12, -0.4], 0.07));
    parts.push(stroke(Ink, head, [0.34, -0.5], 0.045));
    parts.push(stroke(Accent, [0.34, -0.5], [0.62, -0.44], 0.055));
    parts
}

fn butterfly(rng: &mut Rng) -> Vec<Part> {
    let (upper, lower) = (rng.range(0.42, 0.52), rng.range(0.3, 0.4));
    let tilt = rng.range(0.5, 0.8);
    let mut parts = Vec::new();
    for side in [-1.0, 1.0] {
        parts.push(ellipse(Accent, [0.4 * side, 0.4], [lower, 0.28], 0.8 * side));
        parts.push(ellipse(Body, [0.48 * side, -0.28], [upper, 0.34], -tilt * side));
        parts.push(disc(Trim, [0.56 * side, -0.36], 0.15));
        parts.push(disc(Light, [0.42 * side, 0.44], 0.09));
        parts.push(stroke(Ink, [0.0, -0.5], [0.22 * side, -0.9], 0.025));
    }
    parts.push(ellipse(Ink, [0.0, 0.05], [0.1, 0.62], 0.0));
    parts
}

fn car(rng: &mut Rng) -> Vec<Part> {
    let (roof, wheel) = (rng.range(-0.52, -0.38), rng.range(0.2, 0.26));
    let (rear, front) = (rng.range(-0.62, -0.45), rng.range(0.25, 0.45));
    let cabin = [[rear - 0.12, -0.02], [rear, roof], [front, roof], [front + 0.28, -0.02]];
    let window = [[rear, -0.04], [rear + 0.07, roof + 0.1], [front - 0.05, roof + 0.1], [front + 0.12, -0.04]];
    let middle = (rear + front) / 2.0;
    let hull = [[-0.98, 0.42], [-0.96, 0.02], [-0.8, -0.06], [0.72, -0.06], [0.97, 0.1], [1.0, 0.42]];
    let mut parts = vec![polygon(Body, &cabin), polygon(Light, &window)];
    parts.push(stroke(Body, [middle, roof + 0.05], [middle, -0.04], 0.04));
    parts.push(polygon(Body, &hull));
    parts.push(disc(Accent, [0.9, 0.12], 0.08));
    for axle in [[-0.55, 0.42], [0.55, 0.42]] {
        parts.push(disc(Ink, axle, wheel));
        parts.push(disc(Light, axle, wheel * 0.45));
    }
    parts
}

fn fish(rng: &mut Rng) -> Vec<Part> {
    let (height, fork) = (rng.range(0.34, 0.5), rng.range(0.3, 0.5));
    let mut parts = vec![
        polygon(Accent, &[[0.4, 0.0], [0.98, -fork], [0.8, 0.0], [0.98, fork]]),
        polygon(Accent, &[[-0.35, -0.7 * height], [0.1, -height - 0.28], [0.35, -0.5 * height]]),
        polygon(Accent, &[[-0.1, 0.7 * height], [0.2, height + 0.22], [0.3, 0.6 * height]]),
        ellipse(Body, [-0.2, 0.0], [0.75, height], 0.0),
    ];
    for i in 0..rng.below(4) {
        let x = -0.2 + 0.2 * i as f32;
        parts.push(stroke(Trim, [x, -0.6 * height], [x, 0.6 * height], 0.045));
    }
    parts.push(stroke(Ink, [-0.93, 0.1], [-0.72, 0.12], 0.02));
    parts.push(disc(Light, [-0.62, -0.12], 0.12));
    parts.push(disc(Ink, [-0.65, -0.12], 0.06));
    parts
}

fn flower(rng: &mut Rng) -> Vec<Part> {
    let center = [rng.range(-0.12, 0.12), -0.4];
    let num_petals = 5 + rng.below(4);
    let (reach, turn) = (rng.range(0.32, 0.38), rng.range(0.0, TAU));
    let mut parts = vec![
        stroke(Accent, center, [0.0, 0.95], 0.06),
        ellipse(Accent, [0.3, 0.52], [0.3, 0.12], -0.5),
        ellipse(Accent, [-0.28, 0.66], [0.28, 0.11], 0.5),
    ];
    for i in 0..num_petals {
        let angle = turn + TAU * i as f32 / num_petals as f32;
        parts.push(ellipse(Body, polar(center, reach, angle), [0.25, 1.05 / num_petals as f32], angle));
    }
    parts.push(disc(Trim, center, 0.19));
    parts
}

fn house(rng: &mut Rng) -> Vec<Part> {
    let (half_width, eaves, ridge) = (rng.range(0.58, 0.74), rng.range(-0.2, 0.0), rng.range(-0.95, -0.75));
    let chimney = half_width * 0.55;
    let door = rng.range(-0.3, 0.3);
    let mut parts = vec![rectangle(Trim, [chimney - 0.1, ridge], [chimney + 0.1, eaves])];
    parts.push(rectangle(Body, [-half_width, eaves - 0.05], [half_width, 0.85]));
    parts.push(polygon(Accent, &[[-half_width - 0.2, eaves], [0.0, ridge], [half_width + 0.2, eaves]]));
    parts.push(rectangle(Ink, [door - 0.13, 0.3], [door + 0.13, 0.85]));
    for x in [-0.62 * half_width, 0.62 * half_width] {
        if (x - door).abs() > 0.27 {
            parts.push(rectangle(Light, [x - 0.14, 0.15], [x + 0.14, 0.45]));
            parts.push(stroke(Ink, [x, 0.15], [x, 0.45], 0.015));
            parts.push(stroke(Ink, [x - 0.14, 0.3], [x + 0.14, 0.3], 0.015));
        }
    }
    parts
}

fn mug(rng: &mut Rng) -> Vec<Part> {
    let (top, base) = (rng.range(0.46, 0.56), rng.range(0.36, 0.46));
    let upper = rng.range(-0.45, -0.3);
    let mut parts = vec![ring(Body, [0.54, 0.18], rng.range(0.25, 0.32), 0.08)];
    parts.push(polygon(Body, &[[-top - 0.1, upper], [top - 0.1, upper], [base - 0.1, 0.78], [-base - 0.1, 0.78]]));
    parts.push(ellipse(Body, [-0.1, 0.78], [base, 0.1], 0.0));
    parts.push(ellipse(Light, [-0.1, upper], [top, 0.14], 0.0));
    parts.push(ellipse(Ink, [-0.1, upper + 0.02], [top - 0.09, 0.085], 0.0));
    if rng.below(2) == 0 {
        parts.push(stroke(Accent, [-0.1 - base, 0.25], [base - 0.1, 0.25], 0.08));
    }
    for i in 0..rng.below(4) {
        let x = -0.35 + 0.25 * i as f32;
        parts.push(stroke(Light, [x, upper - 0.2], [x + 0.08, upper - 0.36], 0.03));
        parts.push(stroke(Light, [x + 0.08, upper - 0.36], [x, upper - 0.52], 0.03));
    }
    parts
}

fn sailboat(rng: &mut Rng) -> Vec<Part> {
    let (mast, deck) = (rng.range(-0.12, 0.08), 0.45);
    let (clew, foot) = (rng.range(0.75, 0.92), rng.range(0.2, 0.32));
    vec![
        stroke(Ink, [mast, -0.98], [mast, deck], 0.04),
        polygon(Accent, &[[mast + 0.07, -0.9], [clew, foot], [mast + 0.07, foot]]),
        polygon(Trim, &[[mast - 0.07, -0.75], [-clew + 0.1, foot], [mast - 0.07, foot]]),
        polygon(Body, &[[-0.95, deck - 0.05], [0.98, deck - 0.05], [0.62, 0.88], [-0.66, 0.88]]),
        stroke(Light, [-0.75, 0.58], [0.75, 0.58], 0.035),
    ]
}

fn tree(rng: &mut Rng) -> Vec<Part> {
    let num_tiers = 3 + rng.below(2);
    let (widest, narrowest) = (rng.range(0.6, 0.78), rng.range(0.3, 0.4));
    let mut parts = vec![rectangle(Accent, [-0.12, 0.5], [0.12, 0.97])];
    for i in 0..num_tiers {
        let share = i as f32 / (num_tiers - 1) as f32;
        let half_width = widest + (narrowest - widest) * share;
        let bottom = 0.62 - 0.95 * share;
        parts.push(polygon(Body, &[[-half_width, bottom], [0.0, bottom - 0.68], [half_width, bottom]]));
        for side in [-1.0, 1.0].iter().take(rng.below(3) as usize) {
            parts.push(disc(Trim, [0.6 * side * half_width, bottom - 0.1], 0.07));
        }
    }
    parts
}

fn umbrella(rng: &mut Rng) -> Vec<Part> {
    let (height, num_ribs) = (rng.range(0.72, 0.9), 3 + rng.below(3) as usize);
    let rim = -0.05;
    let arch = |i: usize, steps: usize| PI * (1.0 + i as f32 / steps as f32);
    let mut canopy: Vec<_> = (0..=24).map(|i| arch(i, 24)).map(|a| [a.cos(), rim + height * a.sin()]).collect();
    // The lower edge hangs in bows between the ribs.
    let bows = (1..8 * num_ribs).map(|i| {
        let x = 1.0 - 2.0 * i as f32 / (8 * num_ribs) as f32;
        let bow = (PI * i as f32 / 8.0).sin().abs();
        [x, rim - 0.16 * bow]
    });
    canopy.extend(bows);
    let mut parts = vec![stroke(Ink, [0.0, -height - 0.1], [0.0, 0.75], 0.045)];
    let hook = |angle: f32| polar([0.15, 0.75], 0.15, angle);
    parts.extend((0..6).map(|i| stroke(Ink, hook(PI * i as f32 / 6.0), hook(PI * (i + 1) as f32 / 6.0), 0.05)));
    parts.push(polygon(Body, &canopy));
    for i in 1..num_ribs {
        let x = 1.0 - 2.0 * i as f32 / num_ribs as f32;
        parts.push(stroke(Accent, [0.0, rim - height], [x, rim], 0.03));
    }
    parts
}
