// SPDX-License-Identifier: GPL-2.0-only
//! Writes a trace in Perfetto's format: tracks with slices, instants, and counters. Messages contain only the fields
//! used here. Field numbers are from Perfetto's `trace_packet.proto` and `track_event/*.proto`.

use galcore_trace::Outcome;
use prost::Message;

use super::model::Core;
use super::model::Timeline;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    tid: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// All packets belong to one sequence, which starts with the first packet.
const SEQUENCE: u32 = 1;
const INCREMENTAL_STATE_CLEARED: u32 = 1;

/// Track numbers consist of a kind and an index.
fn track(kind: u64, which: u64) -> u64 {
    kind << 40 | which << 1 | 1
}

const CORE: u64 = 1;
const QUEUE: u64 = 2;
const POWER: u64 = 3;
const SPEED: u64 = 4;
const PROCESS: u64 = 5;
const THREAD: u64 = 6;
const MAPPED: u64 = 7;

/// The bits of a process or thread id in a track number.
fn bits(number: i32) -> u64 {
    u64::from(number.unsigned_abs())
}

/// Order of events at the same time, so that slices on a track do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    End,
    /// An empty slice: both its start and its end.
    Empty,
    Other,
}

#[derive(Default)]
struct Writer {
    packets: Vec<(Rank, Packet)>,
}

impl Writer {
    fn describe(&mut self, descriptor: TrackDescriptor) {
        let packet = Packet {
            track_descriptor: Some(descriptor),
            ..Default::default()
        };
        self.packets.push((Rank::Other, packet));
    }

    fn named(&mut self, uuid: u64, parent: Option<u64>, name: String, counts: bool) {
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            parent_uuid: parent,
            counter: counts.then(CounterDescriptor::default),
            ..Default::default()
        });
    }

    /// Adds an event and returns it, so that the caller can add fields.
    fn ranked(&mut self, rank: Rank, time: u64, kind: i32, track: u64) -> &mut TrackEvent {
        let packet = Packet {
            timestamp: Some(time),
            ..Default::default()
        };
        self.packets.push((rank, packet));
        let at = self.packets.len() - 1;
        let event = &mut self.packets[at].1.track_event;
        event.insert(TrackEvent {
            kind: Some(kind),
            track_uuid: Some(track),
            ..Default::default()
        })
    }

    fn event(&mut self, time: u64, kind: i32, track: u64) -> &mut TrackEvent {
        self.ranked(Rank::Other, time, kind, track)
    }

    /// Adds a slice and returns its start event, so that the caller can add fields.
    fn slice(&mut self, from: u64, to: u64, track: u64, name: String) -> &mut TrackEvent {
        let (begin, end) = if from < to {
            (Rank::Other, Rank::End)
        } else {
            (Rank::Empty, Rank::Empty)
        };
        let at = self.packets.len();
        self.ranked(begin, from, SLICE_BEGIN, track).name = Some(name);
        self.ranked(end, to.max(from), SLICE_END, track);
        let begin = &mut self.packets[at].1.track_event;
        begin.get_or_insert_with(TrackEvent::default)
    }

    fn count(&mut self, time: u64, track: u64, value: i64) {
        self.event(time, COUNTER, track).counter_value = Some(value);
    }

    /// Encodes all events, in time order.
    fn finish(mut self) -> Vec<u8> {
        self.packets
            .sort_by_key(|(rank, packet)| (packet.timestamp, *rank));
        let mut packet: Vec<Packet> = self.packets.into_iter().map(|(_, packet)| packet).collect();
        for packet in &mut packet {
            packet.trusted_packet_sequence_id = Some(SEQUENCE);
        }
        if let Some(first) = packet.first_mut() {
            first.sequence_flags = Some(INCREMENTAL_STATE_CLEARED);
        }
        Trace { packet }.encode_to_vec()
    }
}

impl TrackEvent {
    fn number(&mut self, name: &str, value: impl TryInto<i64>) -> &mut Self {
        self.debug_annotations.push(Annotation {
            name: Some(name.to_string()),
            int_value: Some(value.try_into().unwrap_or(i64::MAX)),
            string_value: None,
        });
        self
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.debug_annotations.push(Annotation {
            name: Some(name.to_string()),
            int_value: None,
            string_value: Some(value.to_string()),
        });
        self
    }

    fn category(&mut self, name: &str) -> &mut Self {
        self.categories.push(name.to_string());
        self
    }
}

/// Flow number that links a job's submission to the job.
fn flow(core: u32, seqno: u64) -> u64 {
    u64::from(core) << 56 | (seqno & ((1 << 56) - 1))
}

fn add_core(writer: &mut Writer, timeline: &Timeline, number: u32, core: &Core) {
    let which = u64::from(number);
    let of = |kind| track(kind, which);
    writer.named(
        of(CORE),
        None,
        format!("GPU core {number} {}", core.pipe),
        false,
    );
    writer.named(
        of(POWER),
        Some(of(CORE)),
        format!("core {number} power"),
        false,
    );
    writer.named(
        of(QUEUE),
        Some(of(CORE)),
        format!("core {number} queued jobs"),
        true,
    );
    for (seqno, job) in &core.jobs {
        let Some(run) = timeline.run(job) else {
            continue;
        };
        let whose = job
            .process()
            .map_or_else(String::new, |process| timeline.name(process));
        let slice = writer.slice(run.from, run.to, of(CORE), whose);
        slice
            .category("job")
            .number("seqno", *seqno)
            .number("core", number);
        slice.text(
            "outcome",
            match job.end {
                Some((_, Outcome::Done)) => "done",
                Some((_, Outcome::Dropped)) => "dropped",
                Some((_, Outcome::NeverRun)) => "never-run",
                None => "",
            },
        );
        if let Some((_, submit)) = &job.submit {
            slice.flow_ids.push(flow(number, *seqno));
            slice
                .number("process", submit.process)
                .number("context", submit.context)
                .number("words", submit.words)
                .text("pipe", &submit.pipe);
        }
    }
    for off in timeline.off(core) {
        writer
            .slice(off.from, off.to, of(POWER), "off".to_string())
            .category("power");
    }
    for (time, depth) in timeline.depths(core) {
        writer.count(time, of(QUEUE), i64::try_from(depth).unwrap_or(i64::MAX));
    }
    if !core.speeds.is_empty() {
        writer.named(
            of(SPEED),
            Some(of(CORE)),
            format!("core {number} speed (64ths)"),
            true,
        );
    }
    for &(time, speed) in &core.speeds {
        writer.count(time, of(SPEED), speed.into());
    }
    for &(time, seqno, guilty) in &core.hangs {
        let event = writer.event(time, INSTANT, of(CORE));
        event.name = Some("hang".to_string());
        event
            .category("hang")
            .number("seqno", seqno)
            .number("guilty", guilty);
    }
    for &(time, tries, ok) in &core.resets {
        let event = writer.event(time, INSTANT, of(CORE));
        event.name = Some(if ok { "reset" } else { "given up" }.to_string());
        event.category("reset").number("tries", tries);
    }
}

fn add_process(writer: &mut Writer, timeline: &Timeline, number: i32) {
    let process = &timeline.processes[&number];
    let own = track(PROCESS, bits(number));
    writer.describe(TrackDescriptor {
        uuid: Some(own),
        process: Some(ProcessDescriptor {
            pid: Some(number),
            process_name: Some(process.name.clone()),
        }),
        ..Default::default()
    });
    for &(time, (core, seqno)) in &process.submits {
        let event = writer.event(time, INSTANT, own);
        event.name = Some(format!("submit to core {core}"));
        event
            .category("submit")
            .number("core", core)
            .number("seqno", seqno);
        event.flow_ids.push(flow(core, seqno));
    }
    for (thread, waits) in &process.waits {
        let uuid = track(THREAD, bits(*thread));
        writer.describe(TrackDescriptor {
            uuid: Some(uuid),
            thread: Some(ThreadDescriptor {
                pid: Some(number),
                tid: Some((*thread).into()),
            }),
            parent_uuid: Some(own),
            ..Default::default()
        });
        for waited in waits {
            let wait = &waited.wait;
            let name = format!("wait for {} {}", wait.what, wait.object);
            let slice = writer.slice(waited.span.from, waited.span.to, uuid, name);
            slice.category("wait").number("object", wait.object);
            if let Some(core) = wait.core {
                slice.number("core", core);
            }
            if let Some(result) = waited.result {
                slice.number("result", result);
            }
        }
    }
    if !process.mapped.is_empty() {
        let uuid = track(MAPPED, bits(number));
        writer.named(
            uuid,
            Some(own),
            "mapped since the trace began (bytes)".to_string(),
            true,
        );
        let mut sum = 0_i64;
        for &(time, bytes) in &process.mapped {
            sum = sum.saturating_add(bytes);
            writer.count(time, uuid, sum);
        }
    }
}

/// Encodes a trace file.
pub fn encode(timeline: &Timeline) -> Vec<u8> {
    let mut writer = Writer::default();
    for (number, core) in &timeline.cores {
        add_core(&mut writer, timeline, *number, core);
    }
    for number in timeline.processes.keys() {
        add_process(&mut writer, timeline, *number);
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::timeline;
    use super::super::model::tests::TEXT;
    use super::*;

    #[test]
    fn all_is_there_in_order() {
        let bytes = encode(&timeline(TEXT));
        let trace = Trace::decode(&bytes[..]).unwrap();
        let packets = &trace.packet;
        assert_eq!(packets[0].sequence_flags, Some(INCREMENTAL_STATE_CLEARED));
        assert!(packets
            .iter()
            .all(|p| p.trusted_packet_sequence_id == Some(SEQUENCE)));
        let times: Vec<_> = packets.iter().filter_map(|p| p.timestamp).collect();
        assert!(times.is_sorted());
        let events: Vec<_> = packets
            .iter()
            .filter_map(|p| p.track_event.as_ref())
            .collect();
        let named = |name: &str| {
            events
                .iter()
                .filter(|e| e.name.as_deref() == Some(name))
                .count()
        };
        assert_eq!((named("one 10"), named("<&\"> 20")), (1, 1));
        assert_eq!((named("hang"), named("reset"), named("off")), (1, 1, 2));
        assert_eq!(
            (named("wait for signal 3"), named("submit to core 0")),
            (1, 2)
        );
        // Each track that has events is described before its first event.
        let mut known = std::collections::BTreeSet::new();
        for packet in packets {
            known.extend(packet.track_descriptor.as_ref().and_then(|d| d.uuid));
            if let Some(event) = &packet.track_event {
                assert!(known.contains(&event.track_uuid.unwrap()));
            }
        }
        // On each track, slices start and end alternately.
        let mut depth = std::collections::BTreeMap::new();
        for event in events {
            let depth = depth.entry(event.track_uuid).or_insert(0);
            *depth += match event.kind {
                Some(SLICE_BEGIN) => 1,
                Some(SLICE_END) => -1,
                _ => 0,
            };
            assert!((0..=1).contains(depth), "{event:?}");
        }
        assert!(depth.values().all(|&depth| depth == 0));
    }

    #[test]
    fn empty_slices_begin_before_they_end() {
        let all = timeline(
            "a-1 [0] 1.0: galcore_submit: core=0 seqno=1 process=1 context=0 pipe=2d words=1 event_id=0\n\
             a-1 [0] 1.0: galcore_begin: core=0 seqno=1\n\
             a-1 [0] 1.0: galcore_end: core=0 seqno=1 outcome=done\n",
        );
        let trace = Trace::decode(&encode(&all)[..]).unwrap();
        let events = trace.packet.iter().filter_map(|p| p.track_event.as_ref());
        let kinds: Vec<_> = events
            .filter_map(|e| e.kind)
            .filter(|&k| k < INSTANT)
            .collect();
        assert_eq!(kinds, [SLICE_BEGIN, SLICE_END]);
    }
}
