//! Schedules against PyTorch's and timm's tables, and at the places where they change.

use super::*;
use crate::golden::{Golden, tolerances};
use crate::recipe::{Recipe, ScheduleKind};
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
    Schedule { base_lr, warmup, curve, tail: None }
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
        momentum: Some([0.85, 0.95]),
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

/// The same schedule as a recipe would ask for it, one step an epoch; `None` for what no recipe asks for: an end of the
/// cycles before that of the run.
fn recipe(table: &Table) -> Option<(Recipe, u64)> {
    let mut recipe = Recipe::default();
    let p = |key: &str| table.params[key].as_f64();
    let schedule = &mut recipe.schedule;
    let steps = ["T_max", "total_iters", "total_steps", "epochs", "t_initial"].iter().find_map(|key| p(key));
    let steps = steps.unwrap_or(table.rows.len() as f64);
    let warmup = p("warmup").or_else(|| p("warmup_t")).unwrap_or(0.0);
    let base_lr = p("base_lr").or_else(|| p("max_lr"))?;
    schedule.warmup_epochs = warmup;
    schedule.warmup_start = p("factor").or_else(|| p("start_factor")).unwrap_or(0.01);
    if let Some(start) = p("warmup_lr_init") {
        schedule.warmup_start = start / base_lr;
        schedule.warmup_overlaps = !table.params["warmup_prefix"].as_bool().unwrap_or(table.name == "timm_step");
    }
    schedule.warmup_shape = if p("factor").is_some() { WarmupShape::Constant } else { WarmupShape::Linear };
    schedule.final_lr = p("eta_min").or_else(|| p("lr_min")).unwrap_or(0.0);
    schedule.gamma = p("gamma").or_else(|| p("decay_rate")).unwrap_or(0.1);
    schedule.kind = match table.name {
        "cosine" | "tv_cosine_linear_warmup" | "tv_cosine_constant_warmup" | "timm_cosine_warmup" => {
            ScheduleKind::Cosine
        }
        "timm_cosine_warmup_prefix" => ScheduleKind::Cosine,
        "step" | "tv_step_linear_warmup" | "timm_step" => {
            schedule.step_epochs = p("step_size").or_else(|| p("step")).or_else(|| p("decay_t"))?;
            ScheduleKind::Step
        }
        "multistep" => {
            schedule.milestones = table.params["milestones"].as_array()?.iter().filter_map(Value::as_f64).collect();
            ScheduleKind::MultiStep
        }
        "exponential" => ScheduleKind::Exponential,
        "polynomial" | "timm_poly" => {
            schedule.power = p("power")?;
            ScheduleKind::Polynomial
        }
        "warm_restarts" => {
            (schedule.cycle_epochs, schedule.cycle_growth) = (p("T_0")?, p("T_mult")?);
            ScheduleKind::WarmRestarts
        }
        "onecycle_cos" | "onecycle_linear" | "onecycle_three_phase" => {
            schedule.pct_start = p("pct_start")?;
            (schedule.div_factor, schedule.final_div_factor) = (p("div_factor")?, p("final_div_factor")?);
            schedule.anneal = if table.params["anneal_strategy"] == "linear" { Anneal::Linear } else { Anneal::Cosine };
            let three = table.params["three_phase"].as_bool().unwrap_or(false);
            schedule.phases = if three { Phases::Three } else { Phases::Two };
            schedule.momentum_range = Some([0.85, 0.95]);
            ScheduleKind::OneCycle
        }
        _ => return None,
    };
    // timm's prefix makes the run longer; without it, and in PyTorch, the length is that of all of it.
    let prefix = table.name == "timm_cosine_warmup_prefix";
    let length = if prefix { steps + warmup } else { steps };
    recipe.run.epochs = length as usize;
    recipe.optimizer.lr = base_lr;
    Some((recipe, length as u64))
}

#[test]
fn recipes_ask_for_the_same_learning_rates() {
    let golden = Golden::open();
    let mut compared = 0;
    for mut table in TABLES.iter().filter_map(|name| Table::open(&golden, name)) {
        let Some((recipe, length)) = recipe(&table) else { continue };
        recipe.validate().unwrap_or_else(|error| panic!("{}: {error}", table.name));
        table.rows.retain(|row| (row[0] as u64) < length);
        let schedule = recipe.lr_schedule(1);
        table.compare(1, |step| schedule.lr(step));
        if recipe.schedule.kind == ScheduleKind::OneCycle {
            table.compare(2, |step| schedule.momentum(step).expect("asked for"));
        }
        compared += 1;
    }
    assert!(compared > 0 && (golden.folder().ends_with("tests/golden") || compared == 16), "{compared} schedules");
}

#[test]
fn a_linear_warm_up_meets_the_curve_without_a_jump() {
    let schedule = Schedule {
        base_lr: 1.0,
        warmup: Warmup { steps: 4, start_lr: 0.2, ..Warmup::default() },
        curve: Curve::Cosine { steps: 10, final_lr: 0.0 },
        tail: None,
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
        let schedule = Schedule { base_lr: 1.0, warmup: Warmup::default(), curve, tail: None };
        assert!((0..5).all(|step| schedule.lr(step).is_finite()), "{schedule:?}");
    }
}
