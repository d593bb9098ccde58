// SPDX-License-Identifier: GPL-2.0-only
//! Compares the driver's layout tables with the facts in `tests/abi`: each field that it reads or writes, and each
//! command.

use galcore_client::Abi;

#[path = "../../../src/abi/layout/mod.rs"]
#[allow(dead_code)]
mod layout;

use layout::counters::Counter;
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
        let [major, minor, patch, build] = layout.version();
        match abi.version {
            "" => assert_eq!(layout.version(), [0; 4], "{}", layout.name),
            version => assert_eq!(format!("{major}.{minor}.{patch}.{build}"), version),
        }
    }
}

/// The chained SUBCOMMIT ends at the start of COMMIT's own fields. The alternative names of a generation are unique.
#[test]
fn other_sizes_and_names_are_those_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let wanted = if abi.fields.contains_key("Commit.subCommit.next") {
            abi.fields["Commit.shared"].0
        } else {
            0
        };
        assert_eq!(
            usize::from(layout.sub_commit_bytes),
            wanted,
            "{}",
            layout.name
        );
    }
    for (name, place) in layout::ALIASES {
        assert!(usize::from(*place) < LAYOUTS.len(), "{name}");
        assert!(Abi::named(name).is_none() && name.len() < 16, "{name}");
    }
    assert!(LAYOUTS.iter().all(|layout| layout.name.len() < 16));
}

/// Differences between a table and the facts, and the names of the facts that were compared.
#[derive(Default)]
struct Comparison {
    differences: Vec<String>,
    compared: Vec<String>,
}

impl Comparison {
    fn of(layout: &Layout, abi: &Abi) -> Self {
        let mut this = Self::default();
        this.header(layout, abi);
        this.queue(layout, abi);
        this.members(layout, abi);
        this
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, wanted: T) {
        self.compared.push(what.to_string());
        if found != wanted {
            let text = format!("{what}: {found:?}, the facts have {wanted:?}");
            self.differences.push(text);
        }
    }

    fn header(&mut self, layout: &Layout, abi: &Abi) {
        for (name, field) in [
            ("hardwareType", layout.header.hardware_type),
            ("coreIndex", layout.header.core_index),
            ("engine", layout.header.engine),
            ("status", layout.header.status),
            ("handle", layout.header.handle),
        ] {
            let found = field.exists().then(|| field.place());
            self.expect(name, found, abi.header.get(name).copied());
        }
    }

    fn queue(&mut self, layout: &Layout, abi: &Abi) {
        let queue = &layout.queue;
        let next = abi.fields["gcsQUEUE.next"];
        self.expect("gcsQUEUE.next", queue.next.place(), next);
        let command_at = abi.fields["gcsQUEUE.iface"].0;
        self.expect("gcsQUEUE.iface", usize::from(queue.command), command_at);
        let union_at = abi.fields["gcsQUEUE.u"].0;
        self.expect("gcsQUEUE.u", usize::from(queue.union_at), union_at);
        // The record contains an interface, whose size depends on the build, or a smaller structure of its own.
        let smallest = abi.sizes.iter().min().copied().unwrap_or(0);
        let bytes = abi.members["gcsQUEUE"].min(command_at + smallest);
        self.expect("bytes of a record", usize::from(queue.bytes), bytes);
    }

    fn members(&mut self, layout: &Layout, abi: &Abi) {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        layout.visit(
            &mut |member, found| bytes.push((member, usize::from(found))),
            &mut |member, names, field| places.push((member, names.to_vec(), field)),
        );
        for (member, found) in bytes {
            let wanted = abi.members.get(member).copied().unwrap_or(0);
            self.expect(member, found, wanted);
        }
        for (member, names, field) in places {
            let keys = names.iter().map(|name| format!("{member}.{name}"));
            let known = keys
                .filter_map(|key| abi.fields.get_key_value(key.as_str()))
                .map(|(key, place)| (*key, *place))
                .next();
            // For an array, the driver's table has the first element.
            let wanted = match names[..] {
                ["types" | "ids" | "coreIndexs"] => {
                    known.map(|(key, (at, _))| (at, abi.elements.get(key).copied().unwrap_or(4)))
                }
                _ => known.map(|(key, (at, bytes))| match key {
                    "Commit.contexts" | "Commit.commandBuffers" | "Commit.deltas" => (at, 8),
                    "ReadRegisterDataEx.data"
                    | "WriteRegisterDataEx.data"
                    | "GetProfileSetting.fileName"
                    | "SetProfileSetting.fileName"
                    | "GetGraphicBufferFd.node"
                    | "Debug.message" => (at, 4),
                    _ => (at, bytes),
                }),
            };
            let found = field.exists().then(|| field.place());
            let what = known.map_or(format!("{member}.{}", names[0]), |(key, _)| key.to_string());
            match (found, wanted) {
                // Neither has it.
                (None, None) => {}
                _ => self.expect(&what, found, wanted),
            }
        }
    }
}

#[test]
fn fields_lie_where_the_facts_say() {
    let mut compared = 0;
    for layout in &LAYOUTS {
        let found = Comparison::of(layout, facts(layout));
        assert!(
            found.differences.is_empty(),
            "{}: {:#?}",
            layout.name,
            found.differences
        );
        compared += found.compared.len();
    }
    println!("{compared} places and sizes compared");
    assert!(compared > 52 * 100);
}

/// The comparison detects each field that is moved by one byte, and each structure that is one byte longer.
#[test]
fn a_byte_makes_a_difference() {
    let mut changes = 0;
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let compared = Comparison::of(layout, abi).compared;
        for name in abi
            .header
            .keys()
            .filter(|name| compared.iter().any(|known| known == *name))
        {
            let mut changed = abi.clone();
            changed.header.entry(name).and_modify(|place| place.0 += 1);
            let found = Comparison::of(layout, &changed).differences;
            assert_eq!(found.len(), 1, "{} {name}: {found:?}", layout.name);
            changes += 1;
        }
        for name in abi
            .fields
            .keys()
            .filter(|name| compared.iter().any(|known| known == *name))
        {
            let mut changed = abi.clone();
            changed.fields.entry(name).and_modify(|place| place.0 += 1);
            let found = Comparison::of(layout, &changed).differences;
            let is_found = found.iter().any(|text| text.starts_with(name));
            assert!(is_found, "{} {name}: {found:?}", layout.name);
            changes += 1;
        }
        for name in abi
            .members
            .keys()
            .filter(|name| compared.iter().any(|known| known == *name))
        {
            let mut changed = abi.clone();
            changed.members.entry(name).and_modify(|bytes| *bytes += 1);
            let found = Comparison::of(layout, &changed).differences;
            assert_eq!(found.len(), 1, "{} {name}: {found:?}", layout.name);
            changes += 1;
        }
    }
    println!("{changes} changes found");
    assert!(changes > 52 * 90);
}

#[test]
fn identities_have_the_words_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        let identity = &layout.identity;
        assert_eq!(usize::from(identity.features), abi.features);
        let bytes = usize::from(identity.bytes);
        if usize::from(identity.features) >= usize::BITS as usize {
            // This program's width has them; the layout describes both widths.
            assert_eq!(
                bytes + 32,
                abi.members["QueryChipIdentity"],
                "{}",
                layout.name
            );
            continue;
        }
        assert_eq!(bytes, abi.members["QueryChipIdentity"], "{}", layout.name);
        for (name, field) in [
            ("registerAPB", identity.register_apb),
            ("virtualAddressBits", identity.address_bits),
            ("nnClusterNum", identity.neural_clusters),
        ] {
            let wanted = abi.fields.get(format!("QueryChipIdentity.{name}").as_str());
            let found = field.exists().then(|| field.place());
            assert_eq!(found, wanted.copied(), "{} {name}", layout.name);
        }
        let bytes = |name: &str| {
            let fact = abi.fields.get(format!("QueryChipIdentity.{name}").as_str());
            let (at, bytes) = fact.copied().unwrap_or_default();
            (at..at + bytes)
                .step_by(4)
                .map(|at| (at, 4))
                .collect::<Vec<_>>()
        };
        for (name, fields) in [
            ("sRAMBases", identity.internal_memory),
            ("sRAMSizes", identity.internal_sizes),
        ] {
            let found: Vec<_> = fields.iter().map(|field| field.place()).collect();
            assert_eq!(found, bytes(name), "{} {name}", layout.name);
        }
        for (index, word) in identity.words.iter().enumerate() {
            let name = format!("QueryChipIdentity.{}", word.c_name());
            let wanted = abi.fields.get(name.as_str());
            assert_eq!(wanted, Some(&(4 * index, 4)), "{} {name}", layout.name);
        }
    }
}

#[test]
fn counters_have_the_words_of_the_facts() {
    for layout in &LAYOUTS {
        let abi = facts(layout);
        assert_eq!(usize::from(layout.profiler_bytes), abi.profiler);
        assert_eq!(usize::from(layout.profiler_union_at), abi.profiler_union());
        let new = |part| format!("RegisterProfileNewData_part{part}");
        let plain = |part| format!("RegisterProfileData_part{part}");
        let profile = &layout.profile;
        let mut compared = 0;
        for (names, counters) in [
            (
                ["RegisterProfileData".to_string(), String::new()],
                profile.all,
            ),
            ([new(1), plain(1)], profile.part_1),
            ([new(2), plain(2)], profile.part_2),
        ] {
            let mut wanted = names
                .iter()
                .filter_map(|name| abi.counters.get(name.as_str()));
            let (at, words) = wanted.next().cloned().unwrap_or_default();
            assert_eq!(wanted.next(), None);
            assert_eq!(counters.words.len(), words.len());
            for (counter, name) in counters.words.iter().zip(&words) {
                let is_counted = *counter != Counter::Uncounted;
                let knows = counter.c_names().contains(name);
                assert_eq!(knows, is_counted, "{} {counter:?} {name}", layout.name);
            }
            assert_eq!(usize::from(counters.at), at, "{}", layout.name);
            compared += usize::from(!words.is_empty());
        }
        assert_eq!(compared, abi.counters.len(), "{}", layout.name);
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
        let hardware = &layout.hardware;
        for (name, number) in [
            ("HARDWARE_3D", hardware.three_d),
            ("HARDWARE_2D", hardware.two_d),
            ("HARDWARE_3D2D", hardware.both),
            ("HARDWARE_VG", hardware.vector),
            ("HARDWARE_VIP", hardware.neural),
        ] {
            // Generations without CHIP_INFO have none.
            if let Some(wanted) = abi.values.get(name) {
                assert_eq!(u32::from(number), *wanted, "{} {name}", layout.name);
            }
        }
        let has_image = abi.values.contains_key("SURF_IMAGE");
        assert_eq!(layout.quirks.image_surfaces, has_image, "{}", layout.name);
        let types = u32::from(layout.quirks.surface_types);
        if types != 0 {
            // From 6.3 on, command memory has a type number after those of surfaces.
            let more = u32::from(layout.version() >= [6, 3, 0, 0]);
            assert_eq!(
                types - more,
                abi.values["SURF_NUM_TYPES"],
                "{}",
                layout.name
            );
        }
        let sram = abi.values.get("POOL_SRAM").copied().unwrap_or(u32::MAX);
        assert_eq!(layout.quirks.sram_pool, sram, "{}", layout.name);
        let flags = &layout.quirks.flags;
        for (name, bits) in [
            ("ALLOC_FLAG_CONTIGUOUS", flags.contiguous),
            ("ALLOC_FLAG_NON_CONTIGUOUS", flags.scattered),
            ("ALLOC_FLAG_SECURITY", flags.secure),
            ("ALLOC_FLAG_CACHEABLE", flags.cacheable),
            ("ALLOC_FLAG_FAST_POOLS", flags.fast),
            ("ALLOC_FLAG_ALLOC_ON_FAULT", flags.on_fault),
            ("ALLOC_FLAG_NON_CPU_ACCESS", flags.unseen),
            ("ALLOC_FLAG_DMABUF_EXPORTABLE", flags.exportable),
            ("ALLOC_FLAG_DMABUF", flags.dma_buf),
            ("ALLOC_FLAG_USERMEMORY", flags.user_memory),
        ] {
            let wanted = abi.values.get(name).copied().unwrap_or(0);
            assert_eq!(bits, wanted, "{} {name}", layout.name);
        }
    }
}
