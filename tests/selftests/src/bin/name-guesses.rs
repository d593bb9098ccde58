// SPDX-License-Identifier: GPL-2.0-only
//! Rate limit on guesses of names of nodes and shared buffers: a guessing user gets few tries, and other users are not
//! delayed.

use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::become_user;
use galcore_client::sys::leave_users;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::here;
use galcore_selftests::other;
use galcore_selftests::other::Other;

const GENERATION: &str = "5.0.11.p8";

/// The driver's limit per user: a number of free failed tries, and then one per time span.
const FREE_TRIES: u64 = 64;
const COST: Duration = Duration::from_millis(200);

const GUESSERS: usize = 16;

/// The first two are equal modulo all small powers of two.
const GUESSER: u32 = 1000;
const BYSTANDER: u32 = GUESSER + 0x10000;
const VICTIM: u32 = 1002;

fn device() -> Result<Device> {
    Ok(Device::open_as(
        Abi::named(GENERATION).context("a generation")?,
        true,
    )?)
}

/// MAP of a shared buffer. Returns the status.
fn map_shared(device: &Device, id: u64) -> Result<Status> {
    let fields = [("command", 2), ("id", id)];
    Ok(device.ask("SHBUF", &fields, "id")?.0)
}

/// Random names.
struct Guess(u64);

impl Guess {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 & 0x7fff_ffff | 1
    }
}

/// Runs in another process, as another user, which guesses or imports.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    other::serve(|words| {
        let number =
            |index: usize| -> Result<u64> { Ok(words.get(index).context("word")?.parse()?) };
        match words[0] {
            "user" => {
                become_user(number(1)? as u32)?;
                Ok("changed".to_string())
            }
            "apart" => Ok(match leave_users() {
                Ok(()) => "apart".to_string(),
                Err(error) => format!("impossible: {error}"),
            }),
            // Number of tries that got a reply within a time in milliseconds.
            "guess" => {
                let end = Instant::now() + Duration::from_millis(number(1)?);
                let mut guess = Guess(u64::from(std::process::id()) << 20 | 1);
                let mut tries = 0u64;
                while Instant::now() < end {
                    let status = match tries % 2 {
                        0 => device.import_node(guess.next())?.0,
                        _ => map_shared(&device, guess.next())?,
                    };
                    same("a guess", status, Status::NOT_FOUND)?;
                    tries += 1;
                }
                Ok(tries.to_string())
            }
            // Microseconds that most of ten imports stay below. Single ones may be late because of the machine.
            "import" => {
                let mut times = Vec::new();
                for _ in 0..10 {
                    let start = Instant::now();
                    let (status, _) = device.import_node(number(1)?)?;
                    times.push(start.elapsed());
                    same("IMPORT", status, Status::OK)?;
                    std::thread::sleep(Duration::from_millis(50));
                }
                times.sort();
                Ok(times[times.len() / 2].as_micros().to_string())
            }
            word => bail!("what is {word}?"),
        }
    })
}

fn start(user: u32) -> Result<Other> {
    Other::start_as(Abi::named(GENERATION).context("a generation")?, user)
}

/// Sixteen processes of one user guess while other users import.
fn many_guessers() -> Result<()> {
    const SPAN: Duration = Duration::from_secs(4);
    let client = Client::with_device(device()?)?;
    let node = client.device().allocate(4096, 64, 6, Pool::SYSTEM)?;
    let (status, name) = client.device().name_node(node.handle)?;
    same("NAME", status, Status::OK)?;
    let mut honest = start(BYSTANDER)?;
    let others = (0..GUESSERS)
        .map(|_| start(GUESSER))
        .collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let threads: Vec<_> = others
        .into_iter()
        .map(|mut other| {
            std::thread::spawn(move || -> Result<u64> {
                let answer = other.ask(&format!("guess {}", SPAN.as_millis()))?;
                Ok(answer.parse()?)
            })
        })
        .collect();
    std::thread::sleep(SPAN / 4);
    let usual: u64 = honest.ask(&format!("import {name}"))?.parse()?;
    let start = Instant::now();
    let (status, _) = client.device().import_node(name)?;
    let own = start.elapsed();
    same("IMPORT", status, Status::OK)?;
    let mut tries = 0;
    for thread in threads {
        tries += thread.join().map_err(|_| anyhow::anyhow!("a panic"))??;
    }
    let took = begun.elapsed();
    let most = FREE_TRIES + took.as_millis() as u64 / COST.as_millis() as u64 + 1;
    println!(
        "# {tries} tries in {took:?} ({most} at most); another user's imports {usual} us, root's {own:?}"
    );
    ensure!(tries <= most, "{tries} tries in {took:?}");
    ensure!(tries >= FREE_TRIES, "{tries} tries: fewer than are free");
    // An import that waits for the guessers would take at least the cost of a try.
    ensure!(
        usual < COST.as_micros() as u64 / 2,
        "most of another user's imports took {usual} us"
    );
    ensure!(own < COST / 2, "an import took {own:?}");
    Ok(())
}

/// A process of `user` in its own user namespace, whose users map to 65536 ids from `first` on. `maker` creates the
/// namespace. `None`: this kernel has no user namespaces.
fn contained(maker: u32, first: u32, user: u32) -> Result<Option<Other>> {
    let mut other = start(maker)?;
    if other.ask("apart")? != "apart" {
        return Ok(None);
    }
    for (file, count) in [("uid_map", 0x10000), ("gid_map", 0x10000)] {
        let path = format!("/proc/{}/{file}", other.id());
        std::fs::write(&path, format!("0 {first} {count}")).context(path)?;
    }
    other.become_user(user)?;
    Ok(Some(other))
}

/// Namespaces that an ordinary user creates count for that user. Each namespace that root creates counts as another
/// user.
fn containers() -> Result<()> {
    const OWNER: u32 = 1003;
    let tries = |other: &mut Other, milliseconds: u32| -> Result<u64> {
        Ok(other.ask(&format!("guess {milliseconds}"))?.parse()?)
    };
    let Some(mut first) = contained(0, 0x2_0000, 1000)? else {
        return skip("this kernel has no user namespaces");
    };
    let mut second = contained(0, 0x4_0000, 1000)?.context("no namespace")?;
    let mut own = contained(OWNER, 0x6_0000, 1000)?.context("no namespace")?;
    let mut owner = start(OWNER)?;
    let mut neighbour = contained(0, 0x2_0000, 1001)?.context("no namespace")?;
    let of_first = tries(&mut first, 3000)?;
    // Another user of the same container only gets the tries that were regained since then: five per second.
    let more = tries(&mut neighbour, 1000)?;
    ensure!(
        more <= FREE_TRIES / 2,
        "{more} tries of the first container's other user"
    );
    let all = [
        of_first,
        tries(&mut second, 3000)?,
        tries(&mut own, 3000)?,
        tries(&mut owner, 1000)?,
    ];
    println!(
        "# tries in two containers, in a user's own namespace, and of that user then: {all:?}"
    );
    ensure!(all[0] >= FREE_TRIES && all[1] >= FREE_TRIES, "{all:?}");
    // A user without free tries gets five per second.
    ensure!(all[2] >= FREE_TRIES && all[3] <= FREE_TRIES / 2, "{all:?}");
    Ok(())
}

/// A waiting guesser can be killed, and its try still counts: the next processes of the user gain no tries from it.
fn killed_guessers() -> Result<()> {
    // First uses up the free tries.
    let mut first = start(VICTIM)?;
    let tries: u64 = first.ask("guess 2000")?.parse()?;
    ensure!(tries >= FREE_TRIES, "{tries} tries");
    drop(first);
    let spent = Instant::now();
    let mut ends = Vec::new();
    for _ in 0..20 {
        let mut other = start(VICTIM)?;
        let id = rustix::process::Pid::from_raw(other.id()).context("a process")?;
        let waiter = std::thread::spawn(move || {
            // It ends without a reply.
            let _ = other.ask("guess 60000");
            drop(other);
        });
        std::thread::sleep(Duration::from_millis(20));
        let killed = Instant::now();
        rustix::process::kill_process(id, rustix::process::Signal::KILL)?;
        waiter.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ends.push(killed.elapsed());
    }
    // Other machines on the host may be busy, so most kills must be quick, not each.
    ends.sort();
    let (usual, slowest) = (ends[ends.len() / 2], ends[ends.len() - 1]);
    ensure!(
        usual < here(Duration::from_millis(100))?,
        "most took {usual:?} to kill"
    );
    // The killed processes' tries count: the user only has the tries regained since then.
    let mut last = start(VICTIM)?;
    let tries: u64 = last.ask("guess 1000")?.parse()?;
    let took = spent.elapsed();
    let most = took.as_millis() as u64 / COST.as_millis() as u64 + 1;
    println!(
        "# killed in {usual:?} (slowest {slowest:?}), all in {took:?}, {tries} tries then ({most} at most)"
    );
    ensure!(tries <= most, "{tries} tries in {took:?} of kills");
    Ok(())
}

/// The kernel log names the guessing process, at a limited rate.
fn is_told(begun: Instant) -> Result<()> {
    let log = std::process::Command::new("dmesg").output()?;
    let text = String::from_utf8_lossy(&log.stdout);
    let lines = text
        .lines()
        .filter(|line| line.contains("name-guesses has tried many names"))
        .count();
    // At most thirty lines per user in five seconds, over the whole run of this program.
    let most = 2 * 30 * (begun.elapsed().as_secs() as usize / 5 + 2);
    ensure!((1..=most).contains(&lines), "{lines} lines, {most} at most");
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let begun = Instant::now();
        let mut suite = Suite::new();
        suite.test("sixteen processes guess, others import", many_guessers);
        suite.test("guessers are killed", killed_guessers);
        suite.test("containers, and namespaces of users", containers);
        suite.test("the kernel's log tells of it", move || is_told(begun));
        suite.run()
    })
}
