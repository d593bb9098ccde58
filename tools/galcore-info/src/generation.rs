// SPDX-License-Identifier: GPL-2.0-only
//! Maps a version to possible generations of the interface, and to the ones used on boards with a certain core.

use galcore_client::Abi;
use serde::Serialize;

/// Major, minor, patch and build.
pub type Version = [u32; 4];

/// A generation that its version does not distinguish from others, or that has no version.
struct Alike {
    interface: &'static str,
    /// Start of its versions.
    series: &'static [u32],
    /// Its versions that the interface does not report; they are from boards' kernels.
    versions: &'static [&'static str],
    /// Models of the cores on boards with this generation.
    models: &'static [u32],
    /// A distinctive feature within the series.
    mark: &'static str,
}

const ALIKE: &[Alike] = &[
    Alike {
        interface: "dove",
        series: &[0, 8],
        versions: &["0.8.0.3184"],
        models: &[0x600],
        mark: "Marvell Dove (GC600), kernels with galcore 0.8.0.3184",
    },
    Alike {
        interface: "dove_old",
        series: &[0, 8],
        versions: &["0.8.0.1998", "0.8.0.1123"],
        models: &[0x600],
        mark: "Marvell Dove (GC600), kernels with galcore 0.8.0.1998 or 0.8.0.1123",
    },
    Alike {
        interface: "v2",
        series: &[0, 8],
        versions: &[],
        models: &[0x800, 0x860],
        mark: "RK2918 (GC800) and JZ4770 (GC860): QUERY_CHIP_IDENTITY has a word more than dove's",
    },
    Alike {
        interface: "arnova",
        series: &[0, 8],
        versions: &[],
        models: &[0x800],
        mark:
            "one RK2918 tablet (GC800): an interface of 64 bytes, which no parameter is needed for",
    },
    Alike {
        interface: "v4",
        series: &[4, 6, 6],
        versions: &[],
        models: &[0x320, 0x355, 0x860, 0x880, 0x2000],
        mark: "i.MX6, and GCW Zero (GC860): CACHE has 20 bytes",
    },
    Alike {
        interface: "eureka",
        series: &[4, 6, 6],
        versions: &[],
        models: &[0x1000],
        mark: "Marvell 88DE3100 (GC1000): CACHE has 28 bytes, in another order",
    },
];

/// How well a generation matches a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// The generation has exactly this version.
    Exact,
    /// Its version is the nearest: the highest below, or else the lowest above.
    Nearest,
    /// Its version is the nearest on the other side, or is unknown.
    Possible,
}

/// A generation that may have the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Its name, as in the parameter `interface`.
    pub interface: &'static str,
    /// How well it matches.
    pub fit: Fit,
    /// Its distinctive feature.
    pub mark: String,
    /// Whether boards with the core used it. `None` if the core is unknown, or the generation is independent of the
    /// core.
    pub has_core: Option<bool>,
}

/// A core that determines the generation.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Core models, such as GC600.
    pub cores: Vec<String>,
    /// The generation on boards with one of these cores.
    pub interface: &'static str,
}

/// The generations of a version.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The generation, unless the board's core is necessary to determine it.
    pub interface: Option<&'static str>,
    /// The generation for each possible core, if it is necessary.
    pub decisions: Vec<Decision>,
    /// All possible generations, most likely first.
    pub candidates: Vec<Candidate>,
}

/// Parses `4.6.9:6622` and `4.6.9.6622`. Text after the last number, such as `p8`, is ignored.
pub fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split([':', '.']).filter_map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().ok()
    });
    let mut next = || numbers.next();
    let (major, minor, patch) = (next()?, next()?, next()?);
    // In `5.0.11.p8`, the build follows: it is the last number.
    Some([major, minor, patch, numbers.last().unwrap_or(0)])
}

/// All known versions with their generations.
fn known() -> impl Iterator<Item = (Version, &'static str)> {
    let told = Abi::all().into_iter().flat_map(|abi| {
        let versions = [abi.version].into_iter().chain(abi.also.iter().copied());
        versions.filter_map(|version| Some((parse(version)?, abi.name)))
    });
    let untold = ALIKE.iter().flat_map(|alike| {
        let versions = alike.versions.iter();
        versions.filter_map(|version| Some((parse(version)?, alike.interface)))
    });
    told.chain(untold)
}

/// The known versions nearest to `version` with the same first two numbers: the highest up to it, and the lowest
/// above.
fn neighbours(version: Version) -> [Option<Version>; 2] {
    let alike = || {
        let versions = known().map(|(known, _)| known);
        versions.filter(move |known| known[..2] == version[..2])
    };
    [
        alike().filter(|known| *known <= version).max(),
        alike().filter(|known| *known > version).min(),
    ]
}

/// The cores that decide between `candidates`, and the generation for each.
fn decisions(version: Version, candidates: &[Candidate]) -> Vec<Decision> {
    let named = candidates.iter().filter_map(|candidate| {
        let alike = ALIKE
            .iter()
            .find(|alike| alike.interface == candidate.interface);
        alike.map(|alike| alike.models)
    });
    let mut models: Vec<u32> = named.flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    let mut decisions: Vec<Decision> = Vec::new();
    for model in models {
        let Some((Some(interface), _)) = choose(version, &[model]) else {
            continue;
        };
        let core = format!("GC{model:x}");
        match decisions
            .iter_mut()
            .find(|decision| decision.interface == interface)
        {
            Some(decision) => decision.cores.push(core),
            None => decisions.push(Decision {
                cores: vec![core],
                interface,
            }),
        }
    }
    decisions
}

/// The possible generations of `version` on a board with these core models; an empty list means unknown.
pub fn of(version: Version, models: &[u32]) -> Option<Answer> {
    let (interface, candidates) = choose(version, models)?;
    let decisions = match interface {
        Some(_) => Vec::new(),
        None => decisions(version, &candidates),
    };
    Some(Answer {
        interface,
        decisions,
        candidates,
    })
}

/// The generation of `version` on a board with these core models, unless the core is necessary and unknown; and all
/// candidates, most likely first.
fn choose(version: Version, models: &[u32]) -> Option<(Option<&'static str>, Vec<Candidate>)> {
    let [below, above] = neighbours(version);
    let nearest = below.or(above)?;
    let other = above.filter(|above| nearest != version && *above != nearest);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut add = |interface: &'static str, fit: Fit, version: Option<Version>| {
        if candidates.iter().any(|known| known.interface == interface) {
            return;
        }
        let alike = ALIKE.iter().find(|alike| alike.interface == interface);
        let has_core = alike
            .filter(|_| !models.is_empty())
            .map(|alike| alike.models.iter().any(|model| models.contains(model)));
        let mark = match (alike, version) {
            (Some(alike), _) => alike.mark.to_string(),
            (None, Some([a, b, c, d])) => format!("libraries of {a}.{b}.{c}, build {d}"),
            (None, None) => String::new(),
        };
        candidates.push(Candidate {
            interface,
            fit,
            mark,
            has_core,
        });
    };
    let fit = if nearest == version {
        Fit::Exact
    } else {
        Fit::Nearest
    };
    for (wanted, fit) in [(Some(nearest), fit), (other, Fit::Possible)] {
        for (known, interface) in known().filter(|(known, _)| Some(*known) == wanted) {
            add(interface, fit, Some(known));
        }
    }
    for alike in ALIKE
        .iter()
        .filter(|alike| version.starts_with(alike.series))
    {
        add(alike.interface, Fit::Possible, None);
    }
    // The sort is stable.
    candidates.sort_by_key(|candidate| (candidate.has_core == Some(false), candidate.fit));
    let first = candidates.first()?;
    let is_alike = |candidate: &Candidate| {
        ALIKE
            .iter()
            .any(|alike| alike.interface == candidate.interface)
    };
    // If the core decides, it must be known, and belong to one of the generations.
    let is_decided = !is_alike(first) || first.has_core == Some(true);
    Some((is_decided.then_some(first.interface), candidates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, models: &[u32]) -> Answer {
        of(parse(text).unwrap(), models).unwrap()
    }

    fn names(answer: &Answer) -> Vec<&'static str> {
        let names = answer.candidates.iter().map(|known| known.interface);
        names.collect()
    }

    #[test]
    fn versions_are_generations() {
        for (version, name, fit) in [
            ("4.6.9:1210", "4.0.0", Fit::Exact),
            ("4.6.9:1478", "4.0.0", Fit::Nearest),
            ("4.6.9:6622", "4.1.0", Fit::Exact),
            ("4.6.9:9754", "4.6.9", Fit::Exact),
            ("4.6.9:8290", "4.6.9-marvell", Fit::Exact),
            ("5.0.11:31013", "5.0.11.p6", Fit::Exact),
            ("5.0.11:41671", "5.0.11.p8", Fit::Exact),
            ("5.0.11.p8.41671", "5.0.11.p8", Fit::Exact),
            ("6.2.2:93313", "6.2.2", Fit::Exact),
            ("6.2.3:129602", "6.2.3", Fit::Exact),
            ("6.2.4.p2:163672", "6.2.4.p2", Fit::Exact),
            ("6.4.11:1049711", "6.4.11", Fit::Exact),
            ("6.4.11:608260", "6.4.11.p1.0", Fit::Exact),
            ("6.4.3:398061", "6.4.3-nxp", Fit::Exact),
            ("6.4.6.2:345497", "6.4.6", Fit::Exact),
            ("6.4.6.5:351518", "6.4.6", Fit::Nearest),
            ("6.4.19.4:952875", "6.4.19.4", Fit::Exact),
        ] {
            let answer = answer(version, &[]);
            assert_eq!(answer.interface, Some(name), "{version}");
            assert_eq!(answer.candidates[0].fit, fit, "{version}");
        }
        assert_eq!(of([9, 0, 0, 1], &[0x600]), None);
    }

    /// One build with several layouts: all are listed.
    #[test]
    fn a_build_may_have_several_layouts() {
        let of = |version| names(&answer(version, &[]));
        assert_eq!(of("6.4.11.p2:745085"), ["6.4.11", "6.4.11.p2.0"]);
        assert_eq!(of("6.2.4.p2:163672"), ["6.2.4.p2", "6.2.4.p2-s32v"]);
        assert_eq!(
            of("6.4.0.p2:234062"),
            ["6.4.0.p2.0", "6.4.0.p2.4", "6.4.0.p2-s32v"]
        );
    }

    /// A build between two known ones may match either.
    #[test]
    fn what_is_between_is_named() {
        assert_eq!(names(&answer("4.6.9:1478", &[])), ["4.0.0", "4.1.0"]);
        assert_eq!(
            answer("4.6.9:1478", &[]).candidates[1].mark,
            "libraries of 4.6.9, build 6622"
        );
        assert_eq!(names(&answer("4.6.9:1210", &[])), ["4.0.0"]);
        assert_eq!(names(&answer("4.6.9:20000", &[])), ["4.6.9"]);
    }

    /// Each generation of a series is found by a core of its boards.
    #[test]
    fn the_core_decides_where_the_version_does_not() {
        for (version, models, name) in [
            ("0.8.0:3184", &[0x600][..], "dove"),
            ("0.8.0:1998", &[0x600], "dove_old"),
            ("0.8.0:2500", &[0x600], "dove_old"),
            ("0.8.0:700", &[0x600], "dove_old"),
            ("0.8.0:3184", &[0x800], "v2"),
            ("0.8.0:700", &[0x860], "v2"),
            ("4.6.6:1381", &[0x2000, 0x320, 0x355], "v4"),
            ("4.6.6:1381", &[0x860], "v4"),
            ("4.6.6:1381", &[0x1000], "eureka"),
        ] {
            let answer = answer(version, models);
            assert_eq!(answer.interface, Some(name), "{version} {models:x?}");
            let all = if version.starts_with('0') { 4 } else { 2 };
            assert_eq!(names(&answer).len(), all, "{version}");
        }
        assert_eq!(
            names(&answer("0.8.0:3184", &[0x800])),
            ["v2", "arnova", "dove", "dove_old"]
        );
    }

    #[test]
    fn without_the_core_none_is_taken() {
        for version in ["0.8.0:3184", "0.8.0:1", "4.6.6:1381"] {
            for models in [&[][..], &[0x7000]] {
                assert_eq!(answer(version, models).interface, None, "{version}");
            }
        }
    }

    /// The names in the table exist, and each old generation is in the table.
    #[test]
    fn the_table_fits_the_generations() {
        for alike in ALIKE {
            let abi = Abi::named(alike.interface).unwrap();
            assert!(parse(abi.version).is_none_or(|version| version.starts_with(alike.series)));
            assert!(!alike.models.is_empty() && !alike.mark.is_empty());
        }
        let untold = Abi::all().into_iter().filter(|abi| abi.version.is_empty());
        for abi in untold {
            assert!(ALIKE.iter().any(|alike| alike.interface == abi.name));
        }
    }
}
