//! Numbers as people read them.

/// `93.1 %` of a share, 0–1.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// `58 s`, `4 min 05 s`, `2 h 13 min`.
pub(crate) fn duration(secs: f64) -> String {
    let total = secs.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    match (hours, minutes) {
        (0, 0) if secs < 10.0 => format!("{secs:.1} s"),
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds:02} s"),
        _ => format!("{hours} h {minutes:02} min"),
    }
}

/// `2026-12-01 17:20 UTC` of seconds since 1970, by the proleptic Gregorian calendar.
///
/// Source: Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`: eras of 400 years, years from March.
pub(crate) fn date(unix_secs: u64) -> String {
    let days = unix_secs / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (unix_secs / 3600 % 24, unix_secs / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (secs, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
        ] {
            assert_eq!(date(secs), text);
        }
    }

    #[test]
    fn durations_are_written_as_people_say_them() {
        for (secs, text) in [(4.26, "4.3 s"), (57.6, "58 s"), (245.0, "4 min 05 s"), (7980.0, "2 h 13 min")] {
            assert_eq!(duration(secs), text);
        }
    }
}
