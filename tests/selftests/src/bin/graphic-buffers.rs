// SPDX-License-Identifier: GPL-2.0-only
//! Metadata of nodes that processes exchange (SET_VIDEO_MEMORY_METADATA), and descriptors that keep nodes, a shared
//! buffer, and a signal alive (GET_GRAPHIC_BUFFER_FD).
//!
//! Needs the module to be loaded.

use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Node;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;

const GENERATIONS: [&str; 3] = ["6.2.4.p2", "6.2.4.p3", "6.4.11"];
const METADATA: &str = "SetVidMemMetadata";
const BYTES: u32 = 0x4_0000;
/// The fields besides the descriptor.
const FIELDS: [&str; 5] = [
    "fc_enabled",
    "fc_value",
    "fc_value_upper",
    "compressed",
    "compress_format",
];
const WORDS: [u64; 5] = [1, 0x1122_3344, 0x5566_7788, 1, 9];
/// SHBUF's sub-commands.
const CREATE: u64 = 0;
const DESTROY: u64 = 1;
const MAP: u64 = 2;

/// The metadata of a node: status, descriptor of its tile status, remaining fields.
type Known = (Status, i32, [u64; 5]);

fn exchange(
    device: &Device,
    command: &str,
    member: &str,
    given: &[(&str, u64)],
) -> Result<Vec<u8>> {
    let abi = device.abi();
    let (number, _) = abi.commands[command];
    let mut bytes = vec![0; abi.sizes[0]];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let (kind, size) = abi.header["hardwareType"];
    bytes[kind..kind + size].copy_from_slice(&device.hardware_type().to_le_bytes()[..size]);
    for (field, value) in given {
        abi.set(&mut bytes, member, field, *value);
    }
    device.exchange_bytes(&mut bytes)?;
    Ok(bytes)
}

fn metadata(device: &Device, given: &[(&str, u64)]) -> Result<Known> {
    let abi = device.abi();
    let bytes = exchange(device, "SET_VIDEO_MEMORY_METADATA", METADATA, given)?;
    let get = |field: &str| abi.get(&bytes, METADATA, field);
    Ok((
        Status(abi.header_of(&bytes, "status") as i32),
        get("ts_fd") as i32,
        FIELDS.map(get),
    ))
}

fn read(device: &Device, node: u64) -> Result<Known> {
    metadata(device, &[("node", node), ("readback", 1)])
}

fn tell(device: &Device, node: u64, status: i32, words: [u64; 5]) -> Result<Status> {
    let mut given = vec![("node", node), ("ts_fd", u64::from(status as u32))];
    given.extend(FIELDS.into_iter().zip(words));
    Ok(metadata(device, &given)?.0)
}

fn export(device: &Device, node: Node) -> Result<OwnedFd> {
    let (status, number) = device.node_descriptor(node.handle)?;
    same("GET_VIDEO_MEMORY_FD", status, Status::OK)?;
    Ok(sys::take_descriptor(number)?)
}

/// Runs in another process, which imports a node by name and reads its metadata.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    other::serve(|words| match words[..] {
        ["read", name] => {
            let (status, node) = device.import_node(name.parse()?)?;
            same("IMPORT_VIDEO_MEMORY", status, Status::OK)?;
            Ok(format!("{:?}", read(&device, node)?))
        }
        _ => bail!("what is {words:?}?"),
    })
}

fn told(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let before = at_rest(ProcGc::used_now)?;
    let node = device.allocate(BYTES, 64, 6, Pool::DEFAULT)?;
    let tiles = device.allocate(0x1000, 64, 6, Pool::DEFAULT)?;
    let nothing = (Status::OK, -1, [0; 5]);
    same("at first", read(&device, node.handle)?, nothing)?;
    let of_tiles = export(&device, tiles)?;
    let number = of_tiles.as_raw_fd();
    same(
        "told",
        tell(&device, node.handle, number, WORDS)?,
        Status::OK,
    )?;
    let known = (Status::OK, number, WORDS);
    same("known", read(&device, node.handle)?, known)?;
    same("of the other node", read(&device, tiles.handle)?, nothing)?;
    // Another process imports the node by name.
    let (status, name) = device.name_node(node.handle)?;
    same("NAME_VIDEO_MEMORY", status, Status::OK)?;
    let mut other = Other::start(abi)?;
    let answer = other.ask(&format!("read {name}"))?;
    same("there", answer, format!("{known:?}"))?;
    drop(other);
    // If the number is not a dma-buf, the driver stores only the number.
    let not_found = Status(-19);
    for number in [0, 999] {
        let status = tell(&device, node.handle, number, [7; 5])?;
        same("no dma-buf", status, not_found)?;
        same(
            "noted",
            read(&device, node.handle)?,
            (Status::OK, number, WORDS),
        )?;
    }
    same("none", tell(&device, node.handle, -1, [0; 5])?, Status::OK)?;
    same("none known", read(&device, node.handle)?, nothing)?;
    let unknown = node.handle + 1000;
    for status in [
        read(&device, unknown)?.0,
        tell(&device, unknown, -1, WORDS)?,
    ] {
        ensure!(status != Status::OK, "a node that there is not");
    }
    // A node can be freed even if it is its own tile status.
    let own = export(&device, node)?;
    same(
        "of itself",
        tell(&device, node.handle, own.as_raw_fd(), WORDS)?,
        Status::OK,
    )?;
    drop((own, of_tiles));
    device.free(node)?;
    device.free(tiles)?;
    settles("KiB used", before, ProcGc::used_now)
}

/// Sends GET_GRAPHIC_BUFFER_FD.
fn keep(device: &Device, nodes: [u64; 3], piece: u64, signal: u64) -> Result<(Status, i32)> {
    let abi = device.abi();
    let (number, member) = abi.commands["GET_GRAPHIC_BUFFER_FD"];
    let mut bytes = vec![0; abi.sizes[0]];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let (kind, size) = abi.header["hardwareType"];
    bytes[kind..kind + size].copy_from_slice(&device.hardware_type().to_le_bytes()[..size]);
    let (at, _) = abi.fields[format!("{member}.node").as_str()];
    for (index, node) in nodes.into_iter().enumerate() {
        let at = abi.union_at + at + 4 * index;
        bytes[at..at + 4].copy_from_slice(&(node as u32).to_le_bytes());
    }
    abi.set(&mut bytes, member, "shBuf", piece);
    abi.set(&mut bytes, member, "signal", signal);
    device.exchange_bytes(&mut bytes)?;
    let status = Status(abi.header_of(&bytes, "status") as i32);
    Ok((status, abi.get(&bytes, member, "fd") as i32))
}

fn kept(device: &Device, nodes: [u64; 3], piece: u64, signal: u64) -> Result<OwnedFd> {
    let (status, number) = keep(device, nodes, piece, signal)?;
    same("GET_GRAPHIC_BUFFER_FD", status, Status::OK)?;
    Ok(sys::take_descriptor(number as u64)?)
}

fn piece(device: &Device, command: u64, id: u64) -> Result<Status> {
    let fields = [("command", command), ("id", id)];
    Ok(device.ask("SHBUF", &fields, "id")?.0)
}

/// A descriptor keeps the memory of nodes after their process has freed them, and after it has exited.
fn nodes(abi: &'static Abi) -> Result<()> {
    let before = at_rest(ProcGc::used_now)?;
    let device = Device::open_as(abi, true)?;
    for count in [1, 3] {
        let mut handles = [0; 3];
        for handle in handles.iter_mut().take(count) {
            *handle = device.allocate(BYTES, 64, 6, Pool::DEFAULT)?.handle;
        }
        let descriptor = kept(&device, handles, 0, 0)?;
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let target = std::fs::read_link(link)?;
        same("what it is", target.to_str(), Some("anon_inode:viv-gr"))?;
        for handle in handles.into_iter().take(count) {
            let node = Node {
                handle,
                pool: Pool::DEFAULT,
                bytes: BYTES,
                surface_type: 6,
            };
            device.free(node)?;
        }
        // A duplicate of the descriptor also keeps the memory.
        let copy = descriptor.try_clone()?;
        drop(descriptor);
        let now = ProcGc::used_now()?;
        let kib = |used: [u64; 3]| used.iter().sum::<u64>();
        let most = kib(before) + count as u64 * u64::from(BYTES / 1024);
        same("KiB kept", kib(now), most)?;
        drop(copy);
        settles("KiB used", before, ProcGc::used_now)?;
    }
    // A process that knows the node's name can import it in the meantime.
    let node = device.allocate(BYTES, 64, 6, Pool::DEFAULT)?;
    let descriptor = kept(&device, [node.handle, 0, 0], 0, 0)?;
    let (status, name) = device.name_node(node.handle)?;
    same("NAME_VIDEO_MEMORY", status, Status::OK)?;
    device.free(node)?;
    let (status, handle) = device.import_node(name)?;
    same("IMPORT_VIDEO_MEMORY", status, Status::OK)?;
    device.free(Node { handle, ..node })?;
    drop(descriptor);
    let (status, _) = device.import_node(name)?;
    ensure!(status != Status::OK, "it is still there");
    settles("KiB used", before, ProcGc::used_now)?;
    // The descriptor also outlives the process's client.
    let node = device.allocate(BYTES, 64, 6, Pool::DEFAULT)?;
    let descriptor = kept(&device, [node.handle, 0, 0], 0, 0)?;
    drop(device);
    ensure!(
        at_rest(ProcGc::used_now)? != before,
        "it went with its process"
    );
    drop(descriptor);
    settles("KiB used", before, ProcGc::used_now)
}

/// FREE returns a process's own memory to it, even if a descriptor keeps the node.
fn own_memory(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let before = system::pinned()?;
    let memory = Region::anonymous(BYTES as usize)?;
    let (status, node) = device.wrap_memory(memory.address(), BYTES.into())?;
    same("WRAP_USER_MEMORY", status, Status::OK)?;
    ensure!(system::pinned()? > before, "nothing is pinned");
    let descriptor = kept(&device, [node, 0, 0], 0, 0)?;
    device.free(Node {
        handle: node,
        pool: Pool::DEFAULT,
        bytes: BYTES,
        surface_type: 6,
    })?;
    settles("KiB pinned", before, system::pinned)?;
    drop(descriptor);
    Ok(())
}

/// Shared buffers, signals, and objects that do not exist.
fn others(abi: &'static Abi) -> Result<()> {
    let before = at_rest(ProcGc::used_now)?;
    let device = Device::open_as(abi, true)?;
    drop(kept(&device, [0; 3], 0, 0)?);
    let fields = [("command", CREATE), ("bytes", 64)];
    let (status, id) = device.ask("SHBUF", &fields, "id")?;
    same("CREATE", status, Status::OK)?;
    let signal = device.create_signal(true)?;
    let descriptor = kept(&device, [0; 3], id, signal as u64)?;
    device.destroy_signal(signal)?;
    same("DESTROY", piece(&device, DESTROY, id)?, Status::OK)?;
    same("still there", piece(&device, MAP, id)?, Status::OK)?;
    same("DESTROY", piece(&device, DESTROY, id)?, Status::OK)?;
    drop(descriptor);
    let not_found = Status(-19);
    same("gone", piece(&device, MAP, id)?, not_found)?;
    let node = device.allocate(BYTES, 64, 6, Pool::DEFAULT)?;
    let open = || Ok::<_, anyhow::Error>(std::fs::read_dir("/proc/self/fd")?.count());
    let descriptors = open()?;
    for (nodes, piece, signal) in [
        ([node.handle, node.handle + 1000, 0], 0, 0),
        ([node.handle, 0, 0], id, 0),
        ([node.handle, 0, 0], 0, signal as u64),
    ] {
        let (status, _) = keep(&device, nodes, piece, signal)?;
        ensure!(status != Status::OK, "what there is not is kept");
    }
    same("descriptors", open()?, descriptors)?;
    // From 6.4 on the driver ignores entries after the first 0. Before that, 0 is only a gap.
    let (status, number) = keep(&device, [node.handle, 0, node.handle + 1000], 0, 0)?;
    same("0 ends them", status == Status::OK, abi.name == "6.4.11")?;
    if status == Status::OK {
        drop(sys::take_descriptor(number as u64)?);
    }
    drop(kept(&device, [0, node.handle, 0], 0, 0)?);
    device.free(node)?;
    settles("KiB used", before, ProcGc::used_now)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        for name in GENERATIONS {
            let abi = Abi::named(name).context("a generation")?;
            suite.test(format!("{name}: what is told of a node"), move || told(abi));
            suite.test(format!("{name}: nodes are kept"), move || nodes(abi));
            suite.test(format!("{name}: own memory is not kept"), move || {
                own_memory(abi)
            });
            suite.test(format!("{name}: what else is kept"), move || others(abi));
        }
        suite.run()
    })
}
