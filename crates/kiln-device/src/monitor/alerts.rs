//! What a person should know about a card, judged from its last readings. Pure: samples in, sentences out.
//!
//! Utilisation alone deceives: a laptop's card on battery is "100 % busy" at a fifteenth of its clock, and a card
//! that waits for data every other second averages 50 %. So clocks, performance state, watts, reasons for
//! lowered clocks and the course of the load are looked at together.

use std::collections::{HashMap, VecDeque};

use super::sample::{GpuSample, GpuState};
use crate::inventory::PciAddress;

/// Memory is nearly full from here on.
const MEMORY_SHARE: f64 = 0.9;
/// Hot for any card, °C.
const HOT_C: f32 = 85.0;
/// Too near to the card's own slowdown point, °C.
const SLOWDOWN_MARGIN_C: f32 = 5.0;
/// Under load, percent busy.
const LOADED: f32 = 50.0;
/// P-states from here on are for idling and video.
const LOW_PSTATE: u32 = 5;
/// A clock below this share of the highest is low.
const LOW_CLOCK_SHARE: f32 = 0.3;
/// Busy all the time, percent.
const BUSY: f32 = 90.0;
/// Power below this share of the limit is little for a card that is busy all the time: a rule of thumb.
const LOW_POWER_SHARE: f64 = 0.25;
/// Readings that the course of the load is judged by, and how often it has to jump among them.
const COURSE: usize = 20;
const JUMPS: usize = 4;

/// The course of each card's load.
#[derive(Debug, Default)]
pub(super) struct History(HashMap<Option<PciAddress>, VecDeque<f32>>);

impl History {
    /// Fills in the alerts of `gpus` and remembers their load.
    pub(super) fn judge(&mut self, gpus: &mut [GpuSample]) {
        for gpu in gpus {
            let course = self.0.entry(gpu.pci_address).or_default();
            if gpu.state != GpuState::Active {
                course.clear();
                continue;
            }
            if let Some(util) = gpu.util {
                course.push_back(util);
                if course.len() > COURSE {
                    course.pop_front();
                }
            }
            gpu.alerts = alerts(gpu, course);
        }
    }
}

/// The alerts of a single reading.
pub(crate) fn judge_once(gpu: &GpuSample) -> Vec<String> {
    if gpu.state == GpuState::Active { alerts(gpu, &VecDeque::new()) } else { Vec::new() }
}

fn alerts(gpu: &GpuSample, course: &VecDeque<f32>) -> Vec<String> {
    let pace = low_clocks(gpu).or_else(|| low_power(gpu));
    let found = [memory(gpu), heat(gpu), throttling(gpu), pace, saw_tooth(course)];
    found.into_iter().flatten().collect()
}

fn memory(gpu: &GpuSample) -> Option<String> {
    let (used, total) = (gpu.mem_used_mib?, gpu.mem_total_mib.filter(|total| *total > 0)?);
    let share = used as f64 / total as f64;
    (share > MEMORY_SHARE).then(|| format!("memory is {:.0} % full", 100.0 * share))
}

fn heat(gpu: &GpuSample) -> Option<String> {
    let temp = gpu.temp_c?;
    if let Some(slowdown) = gpu.temp_slowdown_c.filter(|slowdown| temp >= slowdown - SLOWDOWN_MARGIN_C) {
        return Some(format!("{temp:.0} °C, and it slows down at {slowdown:.0} °C"));
    }
    (temp >= HOT_C).then(|| format!("{temp:.0} °C is hot"))
}

fn throttling(gpu: &GpuSample) -> Option<String> {
    let reasons: Vec<&str> = gpu.throttle.as_ref()?.iter().filter_map(|name| cause(name)).collect();
    (!reasons.is_empty()).then(|| format!("clocks are lowered: {}", reasons.join(", ")))
}

/// Names that mean a limit was met, in a person's words; chosen clocks aren't one.
fn cause(name: &str) -> Option<&'static str> {
    Some(match name {
        "sw_power_cap" => "power limit",
        "sw_thermal" | "hw_thermal" => "heat",
        "hw_slowdown" => "emergency slowdown (heat or power supply)",
        "hw_power_brake" => "power supply",
        _ => return None,
    })
}

fn low_clocks(gpu: &GpuSample) -> Option<String> {
    let util = gpu.util.filter(|util| *util > LOADED)?;
    if let (Some(clock), Some(highest)) = (gpu.clock_mhz, gpu.clock_max_mhz)
        && (clock as f32) < LOW_CLOCK_SHARE * highest as f32
    {
        return Some(format!(
            "{util:.0} % busy, but at {clock} of {highest} MHz: held back (battery or power limit), not at full work"
        ));
    }
    let pstate = gpu.pstate.filter(|state| *state >= LOW_PSTATE)?;
    Some(format!("{util:.0} % busy, but in the slow performance state P{pstate} (battery or power limit)"))
}

/// A counter that says busy and a meter that says idle: work comes in pieces too small to fill the card.
fn low_power(gpu: &GpuSample) -> Option<String> {
    let util = gpu.util.filter(|util| *util > BUSY)?;
    let (watts, limit) = (gpu.power_w?, gpu.power_limit_w.filter(|limit| *limit > 0.0)?);
    (watts < LOW_POWER_SHARE * limit).then(|| {
        format!(
            "{util:.0} % busy, but it draws {watts:.0} of {limit:.0} W: its work comes in pieces too small to fill it (a \
             larger batch helps), or it is held back"
        )
    })
}

fn saw_tooth(course: &VecDeque<f32>) -> Option<String> {
    // Only the extremes count; what lies between neither makes nor breaks a jump.
    let extremes: Vec<bool> =
        course.iter().filter(|util| **util <= 10.0 || **util >= 80.0).map(|util| *util >= 80.0).collect();
    let jumps = extremes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    (jumps >= JUMPS).then(|| "load jumps between idle and full: it waits for data in between".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alerts_of(gpu: GpuSample) -> String {
        let mut gpus = [gpu];
        History::default().judge(&mut gpus);
        gpus[0].alerts.join("; ")
    }

    #[test]
    fn limits_are_told_and_what_is_below_them_is_not() {
        let memory = |used| GpuSample { mem_used_mib: Some(used), mem_total_mib: Some(1000), ..GpuSample::default() };
        assert_eq!(alerts_of(memory(900)), "");
        assert_eq!(alerts_of(memory(950)), "memory is 95 % full");
        let heat = |temp, slowdown| GpuSample { temp_c: Some(temp), temp_slowdown_c: slowdown, ..GpuSample::default() };
        assert_eq!(alerts_of(heat(84.0, Some(93.0))), "");
        assert_eq!(alerts_of(heat(85.0, None)), "85 °C is hot");
        assert_eq!(alerts_of(heat(79.0, Some(84.0))), "79 °C, and it slows down at 84 °C");
    }

    #[test]
    fn lowered_clocks_have_a_cause_and_chosen_ones_do_not() {
        let throttle = |names: &[&str]| GpuSample {
            throttle: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..GpuSample::default()
        };
        assert_eq!(alerts_of(throttle(&["sw_power_cap", "sw_thermal"])), "clocks are lowered: power limit, heat");
        assert_eq!(alerts_of(throttle(&["applications_clocks"])), "");
    }

    #[test]
    fn busy_at_a_fraction_of_the_clock_is_held_back() {
        let gpu = |util, clock, pstate| GpuSample {
            util: Some(util),
            clock_mhz: clock,
            clock_max_mhz: Some(2100),
            pstate: Some(pstate),
            ..GpuSample::default()
        };
        assert!(alerts_of(gpu(100.0, Some(139), 8)).contains("139 of 2100 MHz"));
        assert!(alerts_of(gpu(100.0, None, 8)).contains("P8"));
        assert_eq!(alerts_of(gpu(100.0, Some(1900), 2)), "");
        assert_eq!(alerts_of(gpu(3.0, Some(139), 8)), "");
    }

    #[test]
    fn busy_at_a_fraction_of_the_power_is_not_at_full_work() {
        let gpu = |util, watts, clock| GpuSample {
            util: Some(util),
            power_w: Some(watts),
            power_limit_w: Some(60.0),
            clock_mhz: Some(clock),
            clock_max_mhz: Some(2100),
            ..GpuSample::default()
        };
        assert!(alerts_of(gpu(99.0, 11.0, 1900)).contains("draws 11 of 60 W"));
        assert_eq!(alerts_of(gpu(99.0, 40.0, 1900)), "");
        assert_eq!(alerts_of(gpu(40.0, 11.0, 1900)), "");
        // Low clocks are the cause of low power, and told once.
        let told = alerts_of(gpu(99.0, 9.0, 139));
        assert!(told.contains("139 of 2100 MHz") && !told.contains(" W"), "{told}");
    }

    #[test]
    fn a_load_that_jumps_between_idle_and_full_waits_for_data() {
        let mut history = History::default();
        let mut told = Vec::new();
        for util in [0.0, 100.0, 0.0, 97.0, 50.0, 2.0] {
            let mut gpus = [GpuSample { util: Some(util), ..GpuSample::default() }];
            history.judge(&mut gpus);
            told.push(!gpus[0].alerts.is_empty());
        }
        assert_eq!(told, [false, false, false, false, false, true]);
        let mut steady = History::default();
        for _ in 0..COURSE {
            let mut gpus = [GpuSample { util: Some(100.0), ..GpuSample::default() }];
            steady.judge(&mut gpus);
            assert!(gpus[0].alerts.is_empty());
        }
    }
}
