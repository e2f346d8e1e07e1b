//! Schedules against PyTorch's and timm's tables, and at the places where they change.

use super::*;
use crate::golden::{Golden, tolerances};
use serde_json::Value;

/// A table of the golden folder: rows of `step, lr[, momentum]`.
struct Table {
    name: &'static str,
    params: Value,
    relative: f64,
    absolute: f64,
    rows: Vec<Vec<f64>>,
}

impl Table {
    fn open(golden: &Golden, name: &'static str) -> Option<Self> {
        let entry = golden.entry(&format!("lr/{name}.csv"))?;
        let (relative, absolute) = tolerances(entry["tolerance"].as_str().expect("a tolerance"));
        let rows = golden.text(&format!("lr/{name}.csv"));
        let rows =
            rows.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect());
        Some(Self { name, params: entry["params"].clone(), relative, absolute, rows: rows.collect() })
    }

    fn number(&self, key: &str) -> f64 {
        self.params[key].as_f64().unwrap_or_else(|| panic!("{}: {key} in the manifest", self.name))
    }

    fn or(&self, key: &str, default: f64) -> f64 {
        self.params[key].as_f64().unwrap_or(default)
    }

    fn count(&self, key: &str) -> u64 {
        self.params[key].as_u64().unwrap_or_else(|| panic!("{}: {key} in the manifest", self.name))
    }

    fn compare(&self, column: usize, ours: impl Fn(u64) -> f64) {
        for row in &self.rows {
            let (step, want, got) = (row[0] as u64, row[column], ours(row[0] as u64));
            let allowed = self.absolute + self.relative * want.abs();
            assert!((got - want).abs() <= allowed, "{} step {step}: {got:e}, want {want:e}", self.name);
        }
    }
}

/// The schedule that a table's parameters describe.
fn schedule(table: &Table) -> Schedule {
    let base_lr = table.params["base_lr"].as_f64().unwrap_or_else(|| table.or("max_lr", 0.0));
    let (warmup, curve) = match table.name {
        "cosine" => {
            (Warmup::default(), Curve::Cosine { steps: table.count("T_max"), final_lr: table.number("eta_min") })
        }
        "step" => (Warmup::default(), Curve::Step { every: table.count("step_size"), gamma: table.number("gamma") }),
        "multistep" => (Warmup::default(), multistep(table)),
        "exponential" => (Warmup::default(), Curve::Exponential { gamma: table.number("gamma") }),
        "polynomial" => (
            Warmup::default(),
            Curve::Polynomial { steps: table.count("total_iters"), power: table.number("power"), final_lr: 0.0 },
        ),
        "warm_restarts" => (
            Warmup::default(),
            Curve::WarmRestarts {
                first: table.count("T_0"),
                growth: table.number("T_mult"),
                decay: 1.0,
                cycles: None,
                final_lr: table.number("eta_min"),
            },
        ),
        "onecycle_cos" | "onecycle_linear" | "onecycle_three_phase" => (Warmup::default(), one_cycle(table)),
        "tv_cosine_linear_warmup" => (torch_warmup(table, base_lr), torch_cosine(table)),
        "tv_cosine_constant_warmup" => (torch_warmup(table, base_lr), torch_cosine(table)),
        "tv_step_linear_warmup" => {
            (torch_warmup(table, base_lr), Curve::Step { every: table.count("step"), gamma: table.number("gamma") })
        }
        "timm_cosine_warmup" | "timm_cosine_warmup_prefix" | "timm_cosine_cycles" => {
            (timm_warmup(table), timm_cosine(table))
        }
        "timm_step" => {
            (timm_warmup(table), Curve::Step { every: table.count("decay_t"), gamma: table.number("decay_rate") })
        }
        "timm_poly" => (
            timm_warmup(table),
            Curve::Polynomial {
                steps: table.count("t_initial"),
                power: table.number("power"),
                final_lr: table.number("lr_min"),
            },
        ),
        other => panic!("no schedule is known for {other}"),
    };
    Schedule { base_lr, warmup, curve }
}

fn multistep(table: &Table) -> Curve {
    let milestones = table.params["milestones"].as_array().expect("a list");
    Curve::MultiStep {
        milestones: milestones.iter().map(|m| m.as_u64().expect("a step")).collect(),
        gamma: table.number("gamma"),
    }
}

fn one_cycle(table: &Table) -> Curve {
    let linear = table.params["anneal_strategy"] == "linear";
    let three = table.params["three_phase"].as_bool().unwrap_or(false);
    Curve::OneCycle(OneCycle {
        total_steps: table.count("total_steps"),
        pct_start: table.number("pct_start"),
        anneal: if linear { Anneal::Linear } else { Anneal::Cosine },
        div_factor: table.number("div_factor"),
        final_div_factor: table.number("final_div_factor"),
        phases: if three { Phases::Three } else { Phases::Two },
        momentum: [0.85, 0.95],
    })
}

fn torch_warmup(table: &Table, base_lr: f64) -> Warmup {
    let constant = table.params["factor"].as_f64();
    Warmup {
        steps: table.count("warmup"),
        start_lr: base_lr * constant.unwrap_or_else(|| table.or("start_factor", 0.01)),
        shape: if constant.is_some() { WarmupShape::Constant } else { WarmupShape::Linear },
        then: AfterWarmup::StartCurve,
    }
}

fn torch_cosine(table: &Table) -> Curve {
    Curve::Cosine { steps: table.count("epochs") - table.count("warmup"), final_lr: table.number("eta_min") }
}

fn timm_warmup(table: &Table) -> Warmup {
    // Of timm's schedulers only the one with steps has the prefix on unless told otherwise.
    let prefix = table.params["warmup_prefix"].as_bool().unwrap_or(table.name == "timm_step");
    Warmup {
        steps: table.or("warmup_t", 0.0) as u64,
        start_lr: table.or("warmup_lr_init", 0.0),
        shape: WarmupShape::Linear,
        then: if prefix { AfterWarmup::StartCurve } else { AfterWarmup::JoinCurve },
    }
}

fn timm_cosine(table: &Table) -> Curve {
    Curve::WarmRestarts {
        first: table.count("t_initial"),
        growth: table.or("cycle_mul", 1.0),
        decay: table.or("cycle_decay", 1.0),
        cycles: Some(table.or("cycle_limit", 1.0) as u32),
        final_lr: table.number("lr_min"),
    }
}

const TABLES: [&str; 17] = [
    "cosine",
    "exponential",
    "multistep",
    "onecycle_cos",
    "onecycle_linear",
    "onecycle_three_phase",
    "polynomial",
    "step",
    "timm_cosine_cycles",
    "timm_cosine_warmup",
    "timm_cosine_warmup_prefix",
    "timm_poly",
    "timm_step",
    "tv_cosine_constant_warmup",
    "tv_cosine_linear_warmup",
    "tv_step_linear_warmup",
    "warm_restarts",
];

#[test]
fn learning_rates_equal_those_of_torchvision_and_timm() {
    let golden = Golden::open();
    let tables: Vec<Table> = TABLES.iter().filter_map(|name| Table::open(&golden, name)).collect();
    assert!(!tables.is_empty(), "no schedule in {}", golden.folder().display());
    for table in &tables {
        let schedule = schedule(table);
        table.compare(1, |step| schedule.lr(step));
        if let Curve::OneCycle(_) = schedule.curve {
            table.compare(2, |step| schedule.momentum(step).expect("one cycle moves the momentum"));
        }
    }
}

#[test]
fn a_linear_warm_up_meets_the_curve_without_a_jump() {
    let schedule = Schedule {
        base_lr: 1.0,
        warmup: Warmup { steps: 4, start_lr: 0.2, ..Warmup::default() },
        curve: Curve::Cosine { steps: 10, final_lr: 0.0 },
    };
    let first: Vec<f64> = (0..6).map(|step| (schedule.lr(step) * 1e6).round() / 1e6).collect();
    assert_eq!(first, [0.2, 0.4, 0.6, 0.8, 1.0, 0.975528]);
    assert!(schedule.lr(14).abs() < 1e-12, "the curve ends at its final learning rate");
}

#[test]
fn lengths_of_zero_are_harmless() {
    let curves = [
        Curve::Cosine { steps: 0, final_lr: 0.1 },
        Curve::Step { every: 0, gamma: 0.5 },
        Curve::Polynomial { steps: 0, power: 1.0, final_lr: 0.1 },
        Curve::WarmRestarts { first: 0, growth: 0.0, decay: 1.0, cycles: None, final_lr: 0.1 },
    ];
    for curve in curves {
        let schedule = Schedule { base_lr: 1.0, warmup: Warmup::default(), curve };
        assert!((0..5).all(|step| schedule.lr(step).is_finite()), "{schedule:?}");
    }
}
