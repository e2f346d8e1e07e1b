//! Is the card of a generation that the run-time compiler knows?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
};
use crate::{inventory::cuda::CudaDevice, nvrtc::Compilers};

const TOPIC: Topic = Topic {
    id: "compute_capability",
    title: "compute capability",
    why: "every release of CUDA's compiler knows new generations of cards and forgets old ones; f16 needs 5.3, \
          tensor cores 7.0, bf16 8.0",
};

/// How a compiler and a card fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It compiles for just this card.
    Native,
    /// It knows older generations only, this one the newest of them.
    Newer { highest: u32 },
    /// It has forgotten cards this old; this is the oldest it knows.
    TooOld { lowest: u32 },
}

/// How a card of `capability` fits a compiler for `architectures` (10 × major + minor).
pub(super) fn fit(capability: (u32, u32), architectures: &[u32]) -> Fit {
    let card = 10 * capability.0 + capability.1;
    let below = architectures.iter().copied().filter(|architecture| *architecture < card).max();
    match below {
        _ if architectures.contains(&card) || architectures.is_empty() => Fit::Native,
        Some(highest) => Fit::Newer { highest },
        None => Fit::TooOld { lowest: architectures.iter().copied().min().unwrap_or(card) },
    }
}

pub(super) fn check(facts: &Facts) -> Check {
    let cards = &facts.sources.cuda.devices;
    if cards.is_empty() {
        return TOPIC.skip("CUDA shows no card");
    }
    worst(&TOPIC, cards.iter().map(|card| check_card(card, facts.compilers())).collect())
}

fn check_card(card: &CudaDevice, compilers: &Compilers) -> Check {
    let Some(capability) = card.compute_capability else {
        return TOPIC.warn("capability_unknown", format!("{} does not tell its compute capability", card.name));
    };
    let (major, minor) = capability;
    let found = format!("{} has compute capability {major}.{minor}{}", card.name, abilities(capability));
    if capability < (5, 0) {
        return TOPIC
            .fail("capability_too_old", format!("{found}, too old for CUDA 12 (5.0) and CUDA 13 (7.5)"))
            .remedy("use it over Vulkan (--device wgpu) if its driver offers that, else the processor");
    }
    let fits: Vec<Fit> =
        compilers.installations.iter().map(|compiler| fit(capability, &compiler.architectures)).collect();
    if fits.is_empty() || fits.contains(&Fit::Native) {
        return TOPIC.ok(found);
    }
    let newest = fits.iter().find_map(|fit| if let Fit::Newer { highest } = fit { Some(*highest) } else { None });
    match newest {
        Some(highest) => TOPIC
            .warn(
                "no_native_architecture",
                format!(
                    "{found}, and no installed NVRTC has it as a native architecture: the newest generation it knows \
                     is {highest}, whose PTX (compute_{highest}) the driver could translate, but burn asks for \
                     sm_{major}{minor}"
                ),
            )
            .remedy(crate::nvrtc::remedy(None, Some(capability))),
        None => TOPIC
            .fail(
                "capability_too_old",
                format!("{found}, too old for the installed NVRTC (CUDA 13 dropped all below 7.5)"),
            )
            .remedy(crate::nvrtc::remedy(None, Some(capability))),
    }
}

fn abilities(capability: (u32, u32)) -> &'static str {
    match capability {
        (8.., _) => " (f16, bf16 and tensor cores)",
        (7, _) => " (f16; tensor cores unless it is a GTX 16xx; no bf16)",
        capability if capability >= (5, 3) => " (f16; no bf16, no tensor cores)",
        _ => " (no fast f16)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // `nvrtcGetSupportedArchs` of the libraries themselves.
    const NVRTC_12_4: [u32; 14] = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90];
    const NVRTC_13_0: [u32; 12] = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

    #[test]
    fn cards_fit_compilers_of_their_time() {
        let old = Fit::TooOld { lowest: 75 };
        for (card, capability, with_12_4, with_13_0) in [
            ("GeForce 940M", (5, 0), Fit::Native, old),
            ("GTX 1050 Mobile", (6, 1), Fit::Native, old),
            ("GTX 1650", (7, 5), Fit::Native, Fit::Native),
            ("RTX 3050 Laptop", (8, 6), Fit::Native, Fit::Native),
            ("RTX 4060 Laptop", (8, 9), Fit::Native, Fit::Native),
            ("RTX 5070 Laptop", (12, 0), Fit::Newer { highest: 90 }, Fit::Native),
            ("GT 730M", (3, 5), Fit::TooOld { lowest: 50 }, old),
        ] {
            assert_eq!(fit(capability, &NVRTC_12_4), with_12_4, "{card}");
            assert_eq!(fit(capability, &NVRTC_13_0), with_13_0, "{card}");
        }
    }

    #[test]
    fn the_table_of_the_cases_is_met() {
        let Some(expected) = crate::machines::expectation("p06_capability_matrix") else { return };
        for row in expected["table"].as_array().expect("a list") {
            let (major, minor) = row["cc"].as_str().and_then(|text| text.split_once('.')).expect("a capability");
            let capability = (major.parse().expect("a number"), minor.parse().expect("a number"));
            for (version, architectures) in expected["nvrtc_archs"].as_object().expect("a table") {
                let architectures: Vec<u32> = serde_json::from_value(architectures.clone()).expect("numbers");
                let word = match fit(capability, &architectures) {
                    Fit::Native => "ok",
                    Fit::Newer { .. } => "WARN",
                    Fit::TooOld { .. } => "FAIL",
                };
                let wanted = row[version].as_str().expect("text");
                assert!(wanted.starts_with(word), "{} with {version}: {word}, expected {wanted}", row["gpu"]);
            }
        }
    }

    #[test]
    fn a_compiler_that_cannot_say_what_it_knows_is_trusted() {
        assert_eq!(fit((8, 6), &[]), Fit::Native);
    }
}
