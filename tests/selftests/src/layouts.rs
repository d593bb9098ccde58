// SPDX-License-Identifier: GPL-2.0-only
//! A client for any layout of the interface, built from the ABI facts alone: start-up, memory, COMMIT, a signal, and
//! fields that other layouts of the same size have elsewhere.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::command_memory;
use galcore_client::client::place;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::device::NODES;
use galcore_client::profile;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;

use crate::fixture::cell_of;
use crate::fixture::Paint;
use crate::harness::not_tty;
use crate::harness::same;
use crate::system;
use crate::system::KernelLog;

/// The fill byte for parts that an answer must not write.
const UNTOUCHED: u8 = 0xa5;

/// Runs all checks on one layout.
pub fn works(abi: &'static Abi) -> Result<()> {
    only_its_own_bytes(abi).context("VERSION")?;
    let client = Client::with_device(Device::open_as(abi, true)?).context("start-up")?;
    let (name, bytes, why) = system::interface_of_self()?;
    same(
        "interface",
        (name.as_str(), bytes),
        (abi.name, abi.sizes[0]),
    )?;
    same("why", why.as_str(), "the client asked for it")?;
    cores(client.device()).context("CHIP_INFO")?;
    sizes(client.device()).context("sizes")?;
    memory(&client).context("memory")?;
    profiler(client.device()).context("the profiler")?;
    delta(&client).context("a delta")?;
    draws(client).context("COMMIT")
}

/// VERSION writes the status and the version where this layout has them, and no other byte: layouts of the same size
/// have other fields there.
fn only_its_own_bytes(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let (number, member) = abi.commands["VERSION"];
    let mut bytes = vec![UNTOUCHED; abi.sizes[0]];
    abi.put_header(&mut bytes, "command", number.into());
    abi.put_header(&mut bytes, "hardwareType", device.hardware_type().into());
    let mut wanted = bytes.clone();
    device.exchange_bytes(&mut bytes)?;
    abi.put_header(&mut wanted, "status", 0);
    let numbers: Vec<u64> = abi
        .version
        .split('.')
        .map_while(|it| it.parse().ok())
        .collect();
    for (field, number) in ["major", "minor", "patch", "build"]
        .into_iter()
        .zip(numbers)
    {
        abi.set(&mut wanted, member, field, number);
    }
    let differs = bytes
        .iter()
        .zip(&wanted)
        .position(|(one, other)| one != other);
    same("the first byte that differs", differs, None)
}

/// A client of this layout finds the same cores, of the same kinds, as a client of another layout.
fn cores(device: &Device) -> Result<()> {
    let other = Device::open()?;
    let (found, wanted) = (device.chip_info()?, other.chip_info()?);
    same("count", found.count, wanted.count)?;
    let kind = |abi: &Abi, number: u32| {
        let names = ["HARDWARE_3D", "HARDWARE_2D", "HARDWARE_3D2D", "HARDWARE_VG"];
        let is = |name: &&str| abi.values.get(name) == Some(&number);
        names.into_iter().find(is)
    };
    for core in 0..found.count.max(0) as usize {
        let kinds = (
            kind(device.abi(), found.types[core]),
            kind(other.abi(), wanted.types[core]),
        );
        same("kind", kinds.0, kinds.1)?;
        ensure!(kinds.0.is_some(), "core {core} is of no kind");
    }
    let (found, wanted) = (device.identity()?, other.identity()?);
    same(
        "model",
        found.chip_model & 0xff00,
        wanted.chip_model & 0xff00,
    )?;
    if device
        .abi()
        .field("QueryChipIdentity", "chipFeatures")
        .is_some()
    {
        same("features", found.chip_features, wanted.chip_features)?;
        same(
            "minor features 3",
            found.chip_minor_features3,
            wanted.chip_minor_features3,
        )?;
    }
    same(
        "instructions",
        found.instruction_count,
        wanted.instruction_count,
    )?;
    same("pixel pipes", found.pixel_pipes, wanted.pixel_pipes)
}

/// The driver accepts the sizes of all builds of this layout, each on a separate file, and no other size.
fn sizes(device: &Device) -> Result<()> {
    let abi = device.abi();
    for &size in &abi.sizes {
        let mut build = abi.clone();
        build.sizes = vec![size];
        let build: &'static Abi = Box::leak(Box::new(build));
        Device::open_as(build, true)?.base_address()?;
    }
    let whole = abi.sizes[0];
    let number = abi.commands["GET_BASE_ADDRESS"].0;
    let exchange = |size: usize| {
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        sys::exchange(device.as_fd(), uapi::IOCTL_INTERFACE, &mut bytes)
    };
    not_tty("a longer one", exchange(whole + 4))?;
    // The generations of i.MX accept shorter ones from 6.4.11.p1.2 on.
    let takes_shorter = ["6.4.11.p2.0", "6.4.11", "6.4.11.p4"].contains(&abi.name);
    same("a shorter one", exchange(whole - 4).is_ok(), takes_shorter)
}

/// A node of the scattered pool, with this layout's pool number.
fn memory(client: &Client) -> Result<()> {
    const BYTES: u32 = 8192;
    let device = client.device();
    let pool = Pool(device.abi().values["POOL_VIRTUAL"]);
    let told = "virtualPoolEnabled";
    if device.abi().field("QueryVideoMemory", told).is_some() {
        let answer = device.ask("QUERY_VIDEO_MEMORY", &[], told)?;
        same("the pool is there", answer, (Status::OK, 1))?;
    }
    let node = device.allocate(BYTES, 64, surface::BITMAP, pool)?;
    same("pool", node.pool, pool)?;
    let location = device.lock(node)?;
    let memory = device.memory(node, location, client.pool())?;
    memory.fill(0x1234_5678);
    same("in place", memory.read(BYTES as usize - 4), 0x1234_5678)?;
    if device.unlock(node)? {
        device.commit_queue(Queue::new().unlock(node))?;
    }
    client.finish()?;
    system::expect_mapped(location.logical, false)?;
    device.free(node)?;
    let gone = device.lock(Node { ..node });
    let gone = gone.err().and_then(|error| error.status());
    same("LOCK of none", gone, Some(Status::NOT_FOUND))
}

/// GET_PROFILE_SETTING after SET_PROFILE_SETTING, through the ioctl that this layout has for them.
fn profiler(device: &Device) -> Result<()> {
    for enable in [1, 0] {
        let given = [("enable", enable)];
        let answer = profile::ask(device, "SET_PROFILE_SETTING", &given)?;
        same("SET_PROFILE_SETTING", answer.status, Status::OK)?;
        let answer = profile::ask(device, "GET_PROFILE_SETTING", &[])?;
        same("GET_PROFILE_SETTING", answer.status, Status::OK)?;
        let abi = device.abi();
        let at = abi.profiler_union() + abi.fields["GetProfileSetting.enable"].0;
        same("enable", answer.bytes[at], enable as u8)?;
    }
    Ok(())
}

/// COMMIT reports a context switch in the field that this layout has for it. If deltas have a reference count, a switch
/// adds 2 to the count of a delta with records, 1 for each copy of the context. No other field of a delta changes.
fn delta(client: &Client) -> Result<()> {
    const RECORDS: usize = 128;
    let device = client.device();
    let abi = device.abi();
    let field = |name: &str| {
        let name = format!("gcsSTATE_DELTA.{name}");
        abi.fields.get(name.as_str()).map(|(at, _)| *at)
    };
    let head = Memory::new(Region::anonymous(4096)?);
    let at = |name: &str| field(name).with_context(|| format!("no {name}"));
    let (buffer, memory) = command_memory(device, client.pool(), 0x4000)?;
    let mut stream = Stream::new();
    stream.nop();
    let record = place(&buffer, 0, client.engine().pipe(), &stream);
    let contexts = [device.attach()?.context, device.attach()?.context];
    for (context, records, switches) in [
        (contexts[0], 0, true),
        (contexts[0], RECORDS as u64, false),
        (contexts[1], 0, true),
        (contexts[0], RECORDS as u64, true),
    ] {
        head.fill(0);
        if let Some(at) = field("refCount") {
            head.write(at, 1);
        }
        let address = if records == 0 {
            0
        } else {
            head.address() + records
        };
        head.write(at("recordCount")?, u32::from(records != 0));
        head.write(at("recordArray")?, address as u32);
        // The whole of PA_VIEWPORT_SCALE_X.
        head.write(RECORDS, 0xa00 / 4);
        head.write(RECORDS + 4, u32::MAX);
        head.write(RECORDS + 8, 0x3f80_0000);
        let words = || (0..1024).map(|at| head.read(4 * at)).collect::<Vec<_>>();
        let mut wanted = words();
        let mut commit = abi.commit(&record, context, &Queue::new())?;
        abi.set(
            &mut commit.bytes,
            "Commit",
            abi.delta_field(),
            head.address(),
        );
        let kind = device.hardware_type().into();
        abi.put_header(&mut commit.bytes, "hardwareType", kind);
        device.exchange_bytes(&mut commit.bytes)?;
        let status = Status(abi.header_of(&commit.bytes, "status") as i32);
        same("COMMIT", status, Status::OK)?;
        if abi.field("Commit", "contextSwitched").is_some() {
            let told = abi.get(&commit.bytes, "Commit", "contextSwitched") != 0;
            same("contextSwitched", told, switches)?;
        }
        if let (Some(at), true, true) = (field("refCount"), switches, records != 0) {
            wanted[at / 4] += 2;
        }
        same("the delta", words(), wanted)?;
        client.finish()?;
    }
    for context in contexts {
        device.detach(context)?;
    }
    memory.free(device, &buffer)?;
    Ok(())
}

/// Draws coloured cells, each with a COMMIT whose queue sets a signal. The test waits for the signal.
fn draws(client: Client) -> Result<()> {
    let mut paint = Paint::of(client)?;
    let done = paint.device().create_signal(false)?;
    let colour = |cell: u32| 0xff00_4000 | cell;
    for cell in 0..4 {
        let stream = paint.fill_cell(cell, colour(cell));
        paint.commit(&stream, Queue::new().signal(done))?;
        paint.device().wait_signal(done, 20_000)?;
        paint.expect(|x, y| match cell_of(x, y) {
            found if found <= cell => colour(found),
            _ => 0,
        })?;
    }
    paint.device().destroy_signal(done)?;
    paint.close()
}

/// First argument of a process that sends one command without declaring its generation. The other arguments are the
/// size of its interface in bytes and the number of the command.
const SILENT: &str = "--silent";

/// Runs that process if the arguments ask for it. It prints its detected generation, and the version that VERSION
/// returned.
pub fn role() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) != Some(SILENT) {
        return None;
    }
    let say = || -> Result<()> {
        let number =
            |at: usize| -> Result<usize> { Ok(arguments.get(at).context("an argument")?.parse()?) };
        let file = OpenOptions::new().read(true).write(true).open(NODES[0])?;
        let mut bytes = vec![0; number(1)?];
        bytes[0] = number(2)? as u8;
        sys::exchange(file.as_fd(), uapi::IOCTL_INTERFACE, &mut bytes)?;
        let (name, ..) = system::interface_of_self()?;
        let abi = Abi::named(&name).context("a generation")?;
        let numbers = ["major", "minor", "patch", "build"].map(|it| abi.get(&bytes, "Version", it));
        println!("{name} {}", numbers.map(|it| it.to_string()).join("."));
        Ok(())
    };
    Some(match say() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Clients that declare nothing and send VERSION first. If several layouts have the size, the log names them, the
/// layout that the driver assumes, and the parameter. The number of VERSION, which differs between some layouts,
/// narrows the choice.
pub fn silent_ones() -> Result<()> {
    for (size, number, taken) in [
        (288, 1, "6.3.1"),
        (376, 1, "6.4.21.1"),
        (384, 1, "6.4.11"),
        (416, 1, "6.3.3.4"),
        (424, 1, "6.4.3-nxp"),
        (400, 40, "6.2.4.p1.6"),
        (344, 40, "6.2.4.p1.6"),
        (400, 41, "6.2.4.p2"),
    ] {
        let mut log = KernelLog::from_now()?;
        let arguments = [SILENT, &size.to_string(), &number.to_string()];
        let output = system::again(&arguments)?.output()?;
        let abi = Abi::named(taken).context("a generation")?;
        let wanted = format!("{taken} {}", abi.version);
        let told = String::from_utf8(output.stdout)?;
        same(&format!("{size} bytes"), told.trim(), wanted.as_str())?;
        let parts = [
            format!("have interfaces of {size} bytes; taken for {taken}"),
            "(the parameter `interface` selects another)".to_string(),
        ];
        let lines = log.lines()?;
        let is_told = lines
            .iter()
            .any(|line| parts.iter().all(|part| line.text.contains(part.as_str())));
        ensure!(is_told, "{size}: {lines:?}");
    }
    Ok(())
}
