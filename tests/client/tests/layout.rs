// SPDX-License-Identifier: GPL-2.0-only
//! The Rust twin against the facts that the C header is checked with.

use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::uapi::STRUCTURES;

const FACTS: &str = include_str!("../../selftests/c/layout.inc");

/// The words of each line of one kind: `KIND(a, b, c)`.
fn facts(kind: &str) -> Vec<Vec<&'static str>> {
    FACTS
        .lines()
        .filter_map(|line| {
            line.strip_prefix(kind)?
                .strip_prefix('(')?
                .strip_suffix(')')
        })
        .map(|words| words.split(',').map(str::trim).collect())
        .collect()
}

fn number(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// chipMinorFeatures1 becomes chip_minor_features1.
fn snake(name: &str) -> String {
    let name = match name {
        "type" => "surfaceType",
        "object.type" => "object",
        "settings.signal" => "signal",
        "using2D" => "using_2d",
        "using3D" => "using_3d",
        other => other,
    };
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[test]
fn fields_lie_where_the_facts_say() {
    let mut fields = 0;
    for words in facts("FIELD") {
        let (offset, size) = (number(words[2]) as usize, number(words[3]) as usize);
        let (structure, field, base) = match (words[0], words[1].split_once('.')) {
            ("struct gcsHAL_INTERFACE", Some(("u", member))) => match member.split_once('.') {
                Some((member, field)) => (member, field, uapi::UNION_OFFSET),
                None => continue,
            },
            ("struct gcoCMDBUF", _) if words[1] != "object" => ("gcoCMDBUF", words[1], 0),
            _ => continue,
        };
        let Some((_, bytes, known)) = STRUCTURES.iter().find(|(name, ..)| *name == structure)
        else {
            continue;
        };
        if field == "settings" {
            continue;
        }
        let wanted = snake(field);
        let found = known.iter().find(|(name, ..)| *name == wanted);
        assert_eq!(
            found,
            Some(&(wanted.as_str(), offset - base, size)),
            "{structure}.{field}"
        );
        assert!(offset - base + size <= *bytes);
        fields += 1;
    }
    let known: usize = STRUCTURES.iter().map(|(_, _, fields)| fields.len()).sum();
    assert_eq!(fields, known, "every field was compared");
}

#[test]
fn structures_have_the_size_of_the_facts() {
    let mut compared = 0;
    for words in facts("FIELD") {
        let Some(member) = words[1].strip_prefix("u.") else {
            continue;
        };
        if let Some((_, bytes, _)) = STRUCTURES.iter().find(|(name, ..)| *name == member) {
            assert_eq!(*bytes as i64, number(words[3]), "{member}");
            compared += 1;
        }
    }
    for words in facts("SIZE") {
        let size = number(words[1]) as usize;
        match words[0] {
            "struct gcsHAL_INTERFACE" => assert_eq!(size, uapi::INTERFACE_SIZE),
            "struct gcsQUEUE" => assert_eq!(size, uapi::QUEUE_RECORD_SIZE),
            "struct gcoCMDBUF" => {
                let known = STRUCTURES.iter().find(|(name, ..)| *name == "gcoCMDBUF");
                assert_eq!(known.map(|(_, bytes, _)| *bytes), Some(size));
                compared += 1;
            }
            _ => {}
        }
    }
    assert_eq!(compared, STRUCTURES.len());
}

#[test]
fn numbers_are_those_of_the_facts() {
    let mut compared = 0;
    for words in facts("VALUE") {
        let (name, wanted) = (words[0], number(words[1]));
        let found = if let Some(name) = name.strip_prefix("gcvHAL_") {
            Command::ALL
                .iter()
                .find(|(_, known)| *known == name)
                .map(|(value, _)| i64::from(value.0))
        } else if let Some(name) = name.strip_prefix("gcvSTATUS_") {
            Status::ALL
                .iter()
                .find(|(_, known)| *known == name)
                .map(|(value, _)| i64::from(value.0))
        } else if let Some(name) = name.strip_prefix("gcvPOOL_") {
            Pool::ALL
                .iter()
                .find(|(_, known)| *known == name)
                .map(|(value, _)| i64::from(value.0))
        } else {
            continue;
        };
        assert_eq!(found, Some(wanted), "{name}");
        compared += 1;
    }
    assert_eq!(
        compared,
        Command::ALL.len() + Status::ALL.len() + Pool::ALL.len()
    );
}
