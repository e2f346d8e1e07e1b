//! A small anti-aliased painter, and the scene around the thing: background, clutter, light and noise.
//!
//! In: class, size, seed, split, index. Out: RGB8 `[size, size, 3]`.
//! Shapes are painted by their signed distance: coverage falls from 1 to 0 over one pixel at the edge, and the
//! outline is the band around distance zero. Distances of polygons are exact; of ellipses, Quilez'
//! first-order approximation, which is exact where it counts, at the edge.

use std::f32::consts::TAU;

use super::things;

/// A point in the thing's own frame (x right, y down, -1 to 1) or in pixels.
pub(super) type Point = [f32; 2];
/// RGB, 0–1.
type Color = [f32; 3];

/// What a part is painted with. Colours differ from picture to picture.
#[derive(Clone, Copy)]
pub(super) enum Paint {
    /// The main colour.
    Body,
    /// A second colour.
    Accent,
    /// A third.
    Trim,
    /// The dark of the outlines.
    Ink,
    /// Nearly white.
    Light,
}

/// A filled area in the thing's frame.
pub(super) enum Shape {
    /// Any simple polygon.
    Polygon(Vec<Point>),
    /// An ellipse, turned by `angle` radians.
    Ellipse { center: Point, radii: Point, angle: f32 },
    /// A line with round ends.
    Stroke { from: Point, to: Point, half_width: f32 },
    /// A circle line.
    Ring { center: Point, radius: f32, half_width: f32 },
}

/// A shape and its paint; later parts cover earlier ones.
pub(super) struct Part {
    pub(super) shape: Shape,
    pub(super) paint: Paint,
}

impl Shape {
    /// Distance to the edge, negative inside.
    fn distance(&self, p: Point) -> f32 {
        match self {
            Self::Polygon(corners) => polygon_distance(corners, p),
            Self::Ellipse { center, radii, angle } => ellipse_distance(turned(minus(p, *center), -angle), *radii),
            Self::Stroke { from, to, half_width } => segment_distance(*from, *to, p) - half_width,
            Self::Ring { center, radius, half_width } => (length(minus(p, *center)) - radius).abs() - half_width,
        }
    }

    /// Centre and radius of a circle around the shape.
    fn bounds(&self) -> (Point, f32) {
        match self {
            Self::Polygon(corners) => {
                let sum = corners.iter().fold([0.0; 2], |sum, corner| plus(sum, *corner));
                let center = sum.map(|coordinate| coordinate / corners.len() as f32);
                let reach = corners.iter().map(|corner| length(minus(*corner, center))).fold(0.0, f32::max);
                (center, reach)
            }
            Self::Ellipse { center, radii, .. } => (*center, radii[0].max(radii[1])),
            Self::Stroke { from, to, half_width } => {
                let center = plus(*from, *to).map(|coordinate| coordinate / 2.0);
                (center, length(minus(*to, center)) + half_width)
            }
            Self::Ring { center, radius, half_width } => (*center, radius + half_width),
        }
    }
}

/// Draws one picture.
pub(super) fn scene(class: usize, size: u32, seed: u64, split: u64, index: u64) -> Vec<u8> {
    let mut rng = Rng::new(&[seed, split, index]);
    let mut canvas = Canvas::background(size, &mut rng);
    clutter(&mut canvas, &mut rng);
    let colors = palette(canvas.mean_luma(), &mut rng);
    let parts = things::parts(class, &mut rng);
    let frame = Frame::draw(size as f32, &mut rng);
    let outline = rng.range(0.03, 0.05) * frame.scale;
    for part in &parts {
        canvas.paint(&part.shape, &frame, colors[part.paint as usize], outline, colors[Paint::Ink as usize]);
    }
    canvas.light(&mut rng);
    canvas.bytes(&mut rng)
}

/// Small shapes and lines that belong to no class.
fn clutter(canvas: &mut Canvas, rng: &mut Rng) {
    let size = canvas.size as f32;
    for _ in 0..rng.below(4) {
        let reach = size * rng.range(0.02, 0.06);
        let center = [rng.range(0.0, size), rng.range(0.0, size)];
        let frame = Frame { center, scale: reach, angle: rng.turn(), stretch: [1.0, rng.range(0.5, 1.0)] };
        let shape = match rng.below(4) {
            0 => Shape::Ellipse { center: [0.0; 2], radii: [1.0; 2], angle: 0.0 },
            1 => Shape::Polygon(vec![[-1.0, 0.8], [1.0, 0.6], [0.1, -1.0]]),
            2 => Shape::Polygon(vec![[-0.9, -0.9], [0.9, -0.8], [0.8, 0.9], [-0.8, 0.8]]),
            _ => Shape::Stroke { from: [-1.5, 0.0], to: [1.5, 0.3], half_width: 0.25 },
        };
        let (color, ink) = (rng.color(0.15, 0.95), rng.color(0.0, 0.5));
        let outline = if rng.below(2) == 0 { 0.0 } else { 0.02 * size };
        canvas.paint(&shape, &frame, color, outline, ink);
    }
}

/// Where the thing stands: its frame to pixels.
struct Frame {
    center: Point,
    scale: f32,
    angle: f32,
    /// Factors of the thing's x and y; a negative x mirrors.
    stretch: Point,
}

impl Frame {
    /// A random place for a thing: it spans 70–95 % of the side, and up to a tenth of its half may leave the picture.
    fn draw(size: f32, rng: &mut Rng) -> Self {
        let scale = size * rng.range(0.7, 0.95) / 2.0;
        let mirror = if rng.below(2) == 0 { -1.0 } else { 1.0 };
        let margin = 0.9 * scale;
        Self {
            center: [rng.range(margin, size - margin), rng.range(margin, size - margin)],
            scale,
            angle: rng.range(-0.15, 0.15),
            stretch: [mirror * rng.range(0.88, 1.12), rng.range(0.88, 1.12)],
        }
    }

    fn pixel_at(&self, p: Point) -> Point {
        let stretched = [p[0] * self.stretch[0] * self.scale, p[1] * self.stretch[1] * self.scale];
        plus(self.center, turned(stretched, self.angle))
    }

    fn point_at(&self, p: Point) -> Point {
        let upright = turned(minus(p, self.center), -self.angle);
        [upright[0] / self.stretch[0] / self.scale, upright[1] / self.stretch[1] / self.scale]
    }
}

/// Colours of any hue, indexed by [`Paint`]; the body is darker than the background, as a thing against the light is.
fn palette(around: f32, rng: &mut Rng) -> [Color; 5] {
    let body = rng.color(0.15, around - 0.2);
    let (ink, light) = (rng.range(0.0, 0.12), rng.range(0.88, 1.0));
    [body, rng.color(0.2, 0.8), rng.color(0.2, 0.8), [ink; 3], [light; 3]]
}

/// A square picture of floats.
struct Canvas {
    size: usize,
    pixels: Vec<Color>,
}

impl Canvas {
    /// A gradient of two colours, perhaps with ground below a wavy horizon, perhaps with stripes.
    fn background(size: u32, rng: &mut Rng) -> Self {
        let size = size as usize;
        let (from, to, ground) = (rng.color(0.6, 0.95), rng.color(0.6, 0.95), rng.color(0.55, 0.9));
        let direction = turned([1.0, 0.0], rng.turn());
        let horizon = if rng.below(2) == 0 { rng.range(0.35, 0.9) } else { 2.0 };
        let (wave, frequency, phase) = (rng.range(0.0, 0.06), rng.range(2.0, 9.0), rng.turn());
        let stripes = if rng.below(3) == 0 { rng.range(0.02, 0.05) } else { 0.0 };
        let (stripe_axis, stripe_frequency) = (turned([1.0, 0.0], rng.turn()), rng.range(12.0, 40.0));
        let pixels = (0..size * size).map(|i| {
            let p = [(i % size) as f32 / size as f32, (i / size) as f32 / size as f32];
            let along = 0.5 + 0.7 * dot(minus(p, [0.5; 2]), direction);
            let sky = mix(from, to, along.clamp(0.0, 1.0));
            let below = (p[1] - horizon - wave * (frequency * p[0] + phase).sin()) * size as f32;
            let color = mix(sky, ground, (0.5 + below).clamp(0.0, 1.0));
            let stripe = stripes * (stripe_frequency * dot(p, stripe_axis)).sin();
            color.map(|channel| channel + stripe)
        });
        Self { size, pixels: pixels.collect() }
    }

    fn mean_luma(&self) -> f32 {
        self.pixels.iter().map(|pixel| luma(*pixel)).sum::<f32>() / self.pixels.len() as f32
    }

    /// Fills a shape and draws its outline, `outline` pixels wide.
    fn paint(&mut self, shape: &Shape, frame: &Frame, fill: Color, outline: f32, ink: Color) {
        let (center, radius) = shape.bounds();
        let center = frame.pixel_at(center);
        let reach = radius * frame.scale * 1.15 + outline + 2.0;
        let span = |axis: usize| {
            let last = self.size as f32;
            (center[axis] - reach).clamp(0.0, last) as usize..(center[axis] + reach).clamp(0.0, last) as usize
        };
        let (columns, rows) = (span(0), span(1));
        for y in rows {
            for x in columns.clone() {
                let p = frame.point_at([x as f32 + 0.5, y as f32 + 0.5]);
                let distance = shape.distance(p) * frame.scale;
                let pixel = &mut self.pixels[y * self.size + x];
                *pixel = mix(*pixel, fill, (0.5 - distance).clamp(0.0, 1.0));
                let line = if outline > 0.0 { (0.5 + outline / 2.0 - distance.abs()).clamp(0.0, 1.0) } else { 0.0 };
                *pixel = mix(*pixel, ink, line);
            }
        }
    }

    /// Exposure, a tint, and light that falls off across the picture.
    fn light(&mut self, rng: &mut Rng) {
        let exposure = rng.range(0.8, 1.1);
        let tint = [rng.range(0.88, 1.12), rng.range(0.94, 1.06), rng.range(0.88, 1.12)];
        let (direction, slope) = (turned([1.0, 0.0], rng.turn()), rng.range(0.0, 0.4));
        let size = self.size;
        for (i, pixel) in self.pixels.iter_mut().enumerate() {
            let p = [(i % size) as f32 / size as f32 - 0.5, (i / size) as f32 / size as f32 - 0.5];
            let factor = exposure * (1.0 + slope * dot(p, direction));
            *pixel = [0, 1, 2].map(|channel| pixel[channel] * factor * tint[channel]);
        }
    }

    /// Adds sensor noise and rounds to bytes.
    fn bytes(&self, rng: &mut Rng) -> Vec<u8> {
        let sigma = rng.range(0.0, 0.03);
        // The sum of three uniform numbers is close enough to a bell, and has a standard deviation of one half.
        let mut noise = || 2.0 * sigma * (rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
        let byte = |channel: f32| (255.0 * channel).round().clamp(0.0, 255.0) as u8;
        self.pixels.iter().flatten().map(|channel| byte(channel + noise())).collect()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Rng(u64);

impl Rng {
    fn new(words: &[u64]) -> Self {
        let mut rng = Self(0);
        for word in words {
            rng.0 ^= word;
            rng.0 = rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// In `[0, 1)`.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    pub(super) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// An angle in radians, any.
    fn turn(&mut self) -> f32 {
        self.range(0.0, TAU)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A colour of any hue with a brightness in the range.
    fn color(&mut self, darkest: f32, brightest: f32) -> Color {
        let color = [self.uniform(), self.uniform(), self.uniform()];
        let wanted = self.range(darkest, brightest);
        let scaled = color.map(|channel| channel * wanted / luma(color).max(0.05));
        // What exceeds white is moved towards it, at the same brightness.
        let peak = scaled.iter().copied().fold(1.0, f32::max);
        let white = if peak > 1.0 { (peak - 1.0) / (peak - wanted).max(1e-3) } else { 0.0 };
        mix(scaled, [wanted; 3], white.min(1.0))
    }
}

fn polygon_distance(corners: &[Point], p: Point) -> f32 {
    let (mut nearest, mut inside) = (f32::MAX, false);
    let mut from = corners[corners.len() - 1];
    for &to in corners {
        nearest = nearest.min(segment_distance(from, to, p));
        let crosses = (from[1] > p[1]) != (to[1] > p[1]);
        if crosses && p[0] < (to[0] - from[0]) * (p[1] - from[1]) / (to[1] - from[1]) + from[0] {
            inside = !inside;
        }
        from = to;
    }
    if inside { -nearest } else { nearest }
}

fn segment_distance(from: Point, to: Point, p: Point) -> f32 {
    let (line, offset) = (minus(to, from), minus(p, from));
    let along = (dot(offset, line) / dot(line, line).max(1e-12)).clamp(0.0, 1.0);
    length(minus(offset, line.map(|coordinate| coordinate * along)))
}

fn ellipse_distance(p: Point, radii: Point) -> f32 {
    let unit = length([p[0] / radii[0], p[1] / radii[1]]);
    let gradient = length([p[0] / (radii[0] * radii[0]), p[1] / (radii[1] * radii[1])]);
    // At the centre the gradient vanishes; the nearest edge is a short radius away.
    if gradient < 1e-6 { -radii[0].min(radii[1]) } else { unit * (unit - 1.0) / gradient }
}

fn mix(a: Color, b: Color, share: f32) -> Color {
    [0, 1, 2].map(|channel| a[channel] + (b[channel] - a[channel]) * share)
}

/// Brightness by Rec. 601.
fn luma([red, green, blue]: Color) -> f32 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

fn turned([x, y]: Point, angle: f32) -> Point {
    let (sin, cos) = angle.sin_cos();
    [x * cos - y * sin, x * sin + y * cos]
}

fn plus(a: Point, b: Point) -> Point {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

fn dot(a: Point, b: Point) -> f32 {
    a[0] * b[0] + a[1] * b[1]
}

fn length(a: Point) -> f32 {
    dot(a, a).sqrt()
}
