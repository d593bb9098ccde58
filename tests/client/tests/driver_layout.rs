// SPDX-License-Identifier: GPL-2.0-only
//! The driver's layout tables against the facts in `tests/abi`: each field that it reads or writes, each command.

use galcore_client::Abi;

#[path = "../../../src/abi/layout/mod.rs"]
#[allow(dead_code)]
mod layout;

use layout::Command;
use layout::Layout;
use layout::LAYOUTS;

fn facts(layout: &Layout) -> &'static Abi {
    Abi::named(layout.name).unwrap_or_else(|| panic!("no facts of {}", layout.name))
}

#[test]
fn every_generation_has_a_table() {
    assert_eq!(LAYOUTS.len(), Abi::all().len());
    for abi in Abi::all() {
        let tables = LAYOUTS.iter().filter(|layout| layout.name == abi.name);
        assert_eq!(tables.count(), 1, "{}", abi.name);
    }
}

#[test]
fn interfaces_have_the_sizes_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let sizes: Vec<usize> = layout.sizes.iter().map(|&size| size.into()).collect();
        assert_eq!(sizes, abi.sizes, "{}", layout.name);
        assert_eq!(usize::from(layout.argument_bytes), abi.argument);
        assert_eq!(usize::from(layout.union_at), abi.union_at);
        let [major, minor, patch, build] = layout.version;
        match abi.version {
            "" => assert_eq!(layout.version, [0; 4], "{}", layout.name),
            version => assert_eq!(format!("{major}.{minor}.{patch}.{build}"), version),
        }
    }
}

#[test]
fn headers_lie_where_the_facts_say() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        for (name, field) in [
            ("hardwareType", layout.header.hardware_type),
            ("status", layout.header.status),
            ("handle", layout.header.handle),
        ] {
            let found = field.exists().then(|| field.place());
            assert_eq!(
                found.as_ref(),
                abi.header.get(name),
                "{} {name}",
                layout.name
            );
        }
        assert_eq!(layout.queue.next.place(), abi.fields["gcsQUEUE.next"]);
        let command_at = abi.fields["gcsQUEUE.iface"].0;
        assert_eq!(usize::from(layout.queue.command), command_at);
        let union_at = abi.fields["gcsQUEUE.u"].0;
        assert_eq!(usize::from(layout.queue.union_at), union_at);
        // The record holds an interface, whose builds differ; in the newest it is of its own kind.
        let smallest = abi.sizes.iter().min().copied().unwrap_or(0);
        let bytes = match layout.name {
            "6.4.11" => abi.members["gcsQUEUE"],
            _ => command_at + smallest,
        };
        assert_eq!(usize::from(layout.queue.bytes), bytes, "{}", layout.name);
    }
}

#[test]
fn fields_lie_where_the_facts_say() {
    let mut compared = 0;
    for layout in &LAYOUTS {
        let abi = facts(layout);
        layout.visit(
            &mut |member, bytes| {
                let wanted = abi.members.get(member).copied().unwrap_or(0);
                assert_eq!(usize::from(bytes), wanted, "{} {member}", layout.name);
            },
            &mut |member, names, field| {
                let known = names
                    .iter()
                    .filter_map(|name| abi.fields.get(format!("{member}.{name}").as_str()))
                    .copied()
                    .next();
                // Of an array the driver writes the first element.
                let wanted = match names {
                    ["types"] => known.map(|(at, _)| (at, 4)),
                    _ => known,
                };
                let found = field.exists().then(|| field.place());
                assert_eq!(found, wanted, "{} {member}.{}", layout.name, names[0]);
                compared += usize::from(found.is_some());
            },
        );
    }
    println!("{compared} fields compared");
    assert!(compared > 16 * 60);
}

#[test]
fn identities_have_the_words_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let identity = &layout.identity;
        let bytes = usize::from(identity.bytes);
        assert_eq!(bytes, abi.members["QueryChipIdentity"], "{}", layout.name);
        for (index, word) in identity.words.iter().enumerate() {
            let name = format!("QueryChipIdentity.{}", word.c_name());
            let wanted = abi.fields.get(name.as_str());
            assert_eq!(wanted, Some(&(4 * index, 4)), "{} {name}", layout.name);
        }
    }
}

#[test]
fn commands_have_the_numbers_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        for (name, (number, _)) in &abi.commands {
            let found = layout.command(*number).c_name();
            assert_eq!(found, *name, "{} command {number}", layout.name);
        }
        let known = layout
            .commands
            .iter()
            .filter(|&&command| command != Command::Unknown);
        assert_eq!(known.count(), abi.commands.len(), "{}", layout.name);
    }
}

#[test]
fn numbers_of_types_are_those_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let hardware = &layout.manners.hardware;
        for (name, number) in [
            ("HARDWARE_3D", hardware.three_d),
            ("HARDWARE_2D", hardware.two_d),
            ("HARDWARE_3D2D", hardware.both),
            ("HARDWARE_VG", hardware.vector),
        ] {
            // The generations without CHIP_INFO have none.
            if let Some(wanted) = abi.values.get(name) {
                assert_eq!(u32::from(number), *wanted, "{} {name}", layout.name);
            }
        }
        let has_image = abi.values.contains_key("SURF_IMAGE");
        assert_eq!(layout.manners.image_surfaces, has_image, "{}", layout.name);
        let flags = &layout.manners.flags;
        for (name, bits) in [
            ("ALLOC_FLAG_CONTIGUOUS", flags.contiguous),
            ("ALLOC_FLAG_NON_CONTIGUOUS", flags.scattered),
            ("ALLOC_FLAG_SECURITY", flags.secure),
        ] {
            let wanted = abi.values.get(name).copied().unwrap_or(0);
            assert_eq!(bits, wanted, "{} {name}", layout.name);
        }
    }
}
