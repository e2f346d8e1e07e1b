//! Records: the programs of a batch as u32 words, as the kernels and their scalar twins read them.
//!
//! In: the images of a batch, their [`Program`]s, and which of them are mixed. Out: [`Records`], one list of words and
//! a plan of the launches it takes. Everything in it is a whole number but the weights of terms and what erased
//! rectangles are painted with. Positions in the list count from its beginning.
//!
//! | part | words | |
//! | --- | --- | --- |
//! | output, one per image, at the beginning | [`OUTPUT_WORDS`] | first term, number of terms |
//! | term | [`TERM_WORDS`] | layer, weight (f32), region: inside or outside of top, left, bottom, right; erased, number |
//! | erased | [`ERASED_WORDS`] | top, left, bottom, right; paint: kind, three values |
//! | layer | 9 and [`WARP_WORDS`] | image, fill, operations, geometry |
//! | operation | [`OP_WORDS`] | code, base, place, parameters |
//! | tables | | weights of axes and blurs, curves |
//! | stage | 2 per job | layer, operation |
//!
//! An operation's *place* is where its statistic, its neighbours or its table lie; its *base* is 1 plus the index of
//! the last neighbourhood operation before it, 0 if there is none: that is where evaluating it begins.

use rayon::prelude::*;

use crate::augment::erase::deviations;
use crate::augment::geometry::Geometry;
use crate::augment::levels::level;
use crate::augment::mixing::{Mix, Region};
use crate::augment::pixel_op::{Encoded, NUM_PARAMETERS};
use crate::augment::program::{Erased, Layer, Paint, Program};
use crate::augment::taps::AxisTable;
use crate::augment::warp::{WARP_WORDS, WarpRecord};
use crate::batch::ImageSlot;

pub(crate) const OUTPUT_WORDS: usize = 2;

pub(crate) const TERM_WORDS: usize = 9;
pub(crate) const TERM_WEIGHT: usize = 1;
/// See [`Region`]: 0 everywhere, 1 inside, 2 outside.
pub(crate) const TERM_REGION: usize = 2;
pub(crate) const TERM_ERASED: usize = 7;

pub(crate) const ERASED_WORDS: usize = 8;
/// 0 a constant, 1 noise.
pub(crate) const ERASED_PAINT: usize = 4;

/// 0 tables, 1 a warp. Before it the image's first word and its width.
pub(crate) const LAYER_KIND: usize = 2;
pub(crate) const LAYER_FILL: usize = 3;
/// Number of operations, first operation, base of the result.
pub(crate) const LAYER_OPS: usize = 6;
/// Tables: columns and rows as first word and number of taps, then the columns and rows that show the source.
pub(crate) const LAYER_GEOMETRY: usize = 9;
/// Columns that show the source, and rows: where in the geometry.
pub(crate) const TABLE_WINDOW: usize = 4;

pub(crate) const OP_WORDS: usize = 3 + NUM_PARAMETERS;
pub(crate) const OP_BASE: usize = 1;
pub(crate) const OP_PLACE: usize = 2;
pub(crate) const OP_PARAMETERS: usize = 3;

/// What the weights of a column sum to, see [`crate::augment::resample`].
pub(crate) const COLUMN_UNIT: i32 = 1 << 16;
/// What the weights of a row sum to.
pub(crate) const ROW_UNIT: i32 = 1 << 15;

/// A batch's programs in words, and what to launch.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) words: Vec<u32>,
    pub(crate) plan: Plan,
}

/// What a batch takes beside its one launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Images of the batch.
    pub(crate) num_outputs: usize,
    /// Whether every image is one term without operations, warps and erased rectangles: the lean kernel can run it.
    pub(crate) is_plain: bool,
    /// In order; each needs the results of those before.
    pub(crate) stages: Vec<Stage>,
    /// u32 words of all statistics.
    pub(crate) statistics_words: usize,
    /// u32 words of all images kept for their neighbourhoods.
    pub(crate) scratch_words: usize,
    /// Where the deviations of noise begin in the words, if there is noise.
    pub(crate) deviations: usize,
}

/// What can be launched at once: the n-th operation of each layer that needs more than a pixel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage {
    /// Statistics.
    pub(crate) statistics: Jobs,
    /// Images that an operation needs the neighbourhoods of.
    pub(crate) neighbourhoods: Jobs,
}

/// Pairs of a layer and an operation in the words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) first_word: usize,
    pub(crate) count: usize,
}

/// A layer whose expensive part is done: what doesn't depend on where it will lie.
struct Prepared {
    geometry: PreparedGeometry,
    fill: [i32; 3],
    ops: Vec<Encoded>,
}

enum PreparedGeometry {
    Tables { columns: AxisTable, rows: AxisTable },
    Warp(Box<WarpRecord>),
}

impl Prepared {
    fn new(layer: &Layer) -> Self {
        let geometry = &layer.geometry;
        let ops = layer.ops.iter().map(|op| op.encode()).collect();
        Self { geometry: PreparedGeometry::new(geometry), fill: geometry.fill.color.map(level), ops }
    }
}

impl PreparedGeometry {
    fn new(geometry: &Geometry) -> Self {
        let Geometry { rows, columns, warp, filter, .. } = geometry;
        match warp {
            Some(warp) => Self::Warp(Box::new(WarpRecord::new(geometry, warp))),
            None => Self::Tables {
                columns: AxisTable::new(columns, *filter, COLUMN_UNIT),
                rows: AxisTable::new(rows, *filter, ROW_UNIT),
            },
        }
    }
}

impl Records {
    /// Writes the programs of a batch. `mixes` is empty, or has one entry per image.
    ///
    /// # Panics
    /// If an image doesn't begin at a word of a buffer of less than 16 GiB, or the words are 2³² or more.
    pub(crate) fn new(images: &[ImageSlot], programs: &[Program], mixes: &[Mix], [height, width]: [usize; 2]) -> Self {
        let prepared: Vec<Vec<Prepared>> =
            programs.par_iter().map(|program| program.layers.iter().map(Prepared::new).collect()).collect();
        let mut writer = Writer::new(images.len(), 2 * height * width);
        let layers: Vec<Vec<u32>> = prepared
            .iter()
            .zip(images)
            .map(|(layers, slot)| layers.iter().map(|layer| writer.layer(layer, slot)).collect())
            .collect();
        let erased: Vec<[u32; 2]> = programs.iter().map(|program| writer.erased(&program.erased)).collect();
        for index in 0..images.len() {
            let first_term = writer.position();
            let mut num_terms = 0;
            let mix = mixes.get(index).copied().unwrap_or(Mix::none(index));
            for (image, share, region) in mix.parts(index) {
                for (layer, word) in programs[image].layers.iter().zip(&layers[image]) {
                    writer.term(*word, (layer.weight * share) as f32, region, erased[image]);
                    num_terms += 1;
                }
            }
            writer.words[index * OUTPUT_WORDS..][..OUTPUT_WORDS].copy_from_slice(&[first_term, num_terms]);
        }
        writer.finish(programs)
    }
}

/// The words so far.
struct Writer {
    words: Vec<u32>,
    plan: Plan,
    /// Jobs of each stage: layer and operation.
    statistics: Vec<Vec<[u32; 2]>>,
    neighbourhoods: Vec<Vec<[u32; 2]>>,
    /// Words of an image kept for its neighbourhoods.
    image_words: usize,
}

impl Writer {
    fn new(num_outputs: usize, image_words: usize) -> Self {
        Self {
            words: vec![0; num_outputs * OUTPUT_WORDS],
            plan: Plan { num_outputs, is_plain: true, ..Plan::default() },
            statistics: Vec::new(),
            neighbourhoods: Vec::new(),
            image_words,
        }
    }

    fn position(&self) -> u32 {
        u32::try_from(self.words.len()).expect("records of less than 16 GiB")
    }

    /// Writes a layer, what belongs to it first, and returns where it is.
    fn layer(&mut self, layer: &Prepared, slot: &ImageSlot) -> u32 {
        let mut geometry = [0; WARP_WORDS];
        let kind = match &layer.geometry {
            PreparedGeometry::Warp(warp) => {
                self.plan.is_plain = false;
                geometry = warp.to_words();
                1
            }
            PreparedGeometry::Tables { columns, rows } => {
                for (axis, table) in [columns, rows].into_iter().enumerate() {
                    geometry[2 * axis] = self.table(table);
                    geometry[2 * axis + 1] = table.num_taps as u32;
                    geometry[TABLE_WINDOW + 2 * axis..][..2].copy_from_slice(&table.window);
                }
                0
            }
        };
        let tables: Vec<u32> = layer.ops.iter().map(|op| self.append(&op.table)).collect();
        let first_op = self.position();
        let position = first_op + (layer.ops.len() * OP_WORDS) as u32;
        let base = self.ops(&layer.ops, &tables, position);
        assert_eq!(slot.offset % 4, 0, "images begin at words");
        let first_word = u32::try_from(slot.offset / 4).expect("a batch of less than 16 GiB");
        self.words.extend([first_word, slot.width, kind]);
        self.words.extend(layer.fill.map(|value| value as u32));
        self.words.extend([layer.ops.len() as u32, first_op, base]);
        self.words.extend(geometry);
        position
    }

    /// Writes the operations of the layer that will be at word `layer`; returns the base of their result.
    fn ops(&mut self, ops: &[Encoded], tables: &[u32], layer: u32) -> u32 {
        let (mut base, mut stage) = (0, 0);
        for (index, op) in ops.iter().enumerate() {
            self.plan.is_plain = false;
            let job = [layer, self.position()];
            let mut parameters = op.parameters;
            let mut place = tables[index];
            let used_base = base;
            if op.is_neighbourhood() {
                parameters[NUM_PARAMETERS - 1] = tables[index];
                place = self.plan.scratch_words as u32;
                self.plan.scratch_words += self.image_words;
                push_job(&mut self.neighbourhoods, stage, job);
                base = index as u32 + 1;
                stage += 1;
            } else if let Some(statistic) = op.statistic() {
                place = self.plan.statistics_words as u32;
                self.plan.statistics_words += statistic.num_words();
                push_job(&mut self.statistics, stage, job);
                stage += 1;
            }
            self.words.extend([op.code, used_base, place]);
            self.words.extend(parameters);
        }
        base
    }

    /// First pixels, then weights, tap by tap.
    fn table(&mut self, table: &AxisTable) -> u32 {
        let position = self.append(&table.first);
        self.words.extend(table.weights.iter().map(|weight| *weight as u32));
        position
    }

    fn append(&mut self, words: &[u32]) -> u32 {
        let position = self.position();
        self.words.extend_from_slice(words);
        position
    }

    /// Returns where the rectangles are and how many.
    fn erased(&mut self, erased: &[Erased]) -> [u32; 2] {
        let position = self.position();
        for Erased { region, paint } in erased {
            self.plan.is_plain = false;
            self.words.extend(region);
            match paint {
                Paint::Constant(color) => {
                    self.words.extend([0, color[0].to_bits(), color[1].to_bits(), color[2].to_bits()])
                }
                Paint::Noise { key } => self.words.extend([1, *key as u32, (*key >> 32) as u32, 0]),
            }
        }
        [position, erased.len() as u32]
    }

    fn term(&mut self, layer: u32, weight: f32, region: Region, erased: [u32; 2]) {
        let (kind, edges) = match region {
            Region::Everywhere => (0, [0; 4]),
            Region::Inside(edges) => (1, edges),
            Region::Outside(edges) => (2, edges),
        };
        self.words.extend([layer, weight.to_bits(), kind]);
        self.words.extend(edges);
        self.words.extend(erased);
    }

    fn finish(mut self, programs: &[Program]) -> Records {
        let has_noise = |program: &Program| program.erased.iter().any(|it| matches!(it.paint, Paint::Noise { .. }));
        if programs.iter().any(has_noise) {
            self.plan.deviations = self.words.len();
            self.words.extend(deviations().into_iter().map(|deviation| deviation as u32));
        }
        let num_stages = self.statistics.len().max(self.neighbourhoods.len());
        let outputs = self.words[..self.plan.num_outputs * OUTPUT_WORDS].as_chunks::<OUTPUT_WORDS>().0;
        self.plan.is_plain &= outputs.iter().all(|[_, num_terms]| *num_terms == 1);
        for stage in 0..num_stages {
            let [statistics, neighbourhoods] = [&self.statistics, &self.neighbourhoods]
                .map(|jobs| jobs.get(stage).map_or(Vec::new(), |jobs| jobs.concat()));
            let mut write = |words: Vec<u32>| Jobs { first_word: self.append(&words) as usize, count: words.len() / 2 };
            let stage = Stage { statistics: write(statistics), neighbourhoods: write(neighbourhoods) };
            self.plan.stages.push(stage);
        }
        Records { words: self.words, plan: self.plan }
    }
}

fn push_job(stages: &mut Vec<Vec<[u32; 2]>>, stage: usize, job: [u32; 2]) {
    if stages.len() <= stage {
        stages.resize(stage + 1, Vec::new());
    }
    stages[stage].push(job);
}
