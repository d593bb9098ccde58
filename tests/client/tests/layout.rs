// SPDX-License-Identifier: GPL-2.0-only
//! Compares the Rust structures with the facts that also verify the C header.

use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::uapi::STRUCTURES;
use galcore_client::Abi;

/// Numbers that are equal in all generations, and are therefore not in the generations' facts.
const COMMON: &str = include_str!("../../selftests/c/layout.inc");

/// Converts chipMinorFeatures1 to chip_minor_features1.
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
    for (name, &(offset, size)) in &Abi::own().fields {
        let (structure, field) = name.split_once('.').expect("a structure's field");
        let Some((_, bytes, known)) = STRUCTURES.iter().find(|(name, ..)| *name == structure)
        else {
            continue;
        };
        let wanted = snake(field);
        let found = known.iter().find(|(name, ..)| *name == wanted);
        assert_eq!(found, Some(&(wanted.as_str(), offset, size)), "{name}");
        assert!(offset + size <= *bytes);
        fields += 1;
    }
    let known: usize = STRUCTURES.iter().map(|(_, _, fields)| fields.len()).sum();
    assert_eq!(fields, known, "every field was compared");
}

#[test]
fn structures_have_the_size_of_the_facts() {
    let abi = Abi::own();
    for (name, bytes, _) in STRUCTURES {
        assert_eq!(abi.members.get(name), Some(bytes), "{name}");
    }
    assert_eq!(abi.sizes[0], uapi::INTERFACE_SIZE);
    assert_eq!(abi.union_at, uapi::UNION_OFFSET);
    assert_eq!(abi.header["status"], (uapi::STATUS_OFFSET, 4));
    assert_eq!(abi.members["gcsQUEUE"], uapi::QUEUE_RECORD_SIZE);
}

/// Compares the numbers `known` here with those of the facts, in any order.
fn same<T: Ord + std::fmt::Debug>(known: impl Iterator<Item = T>, facts: impl Iterator<Item = T>) {
    let sorted = |numbers: Vec<T>| {
        let mut numbers = numbers;
        numbers.sort();
        numbers
    };
    let facts = sorted(facts.collect());
    assert!(!facts.is_empty());
    assert_eq!(sorted(known.collect()), facts);
}

#[test]
fn numbers_are_those_of_the_facts() {
    let abi = Abi::own();
    same(
        Command::ALL.iter().map(|(value, name)| (*name, value.0)),
        abi.commands
            .iter()
            .map(|(name, (value, _))| (*name, *value)),
    );
    same(
        Pool::ALL.iter().map(|(value, name)| (*name, value.0)),
        abi.values.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("POOL_")?;
            (name != "NUMBER_OF_POOLS").then_some((name, *value))
        }),
    );
    same(
        Status::ALL.iter().map(|(value, name)| (*name, value.0)),
        COMMON.lines().filter_map(|line| {
            let words = line.strip_prefix("VALUE(gcvSTATUS_")?.strip_suffix(')')?;
            let (name, value) = words.split_once(", ")?;
            Some((name, value.parse().expect("a number")))
        }),
    );
}
