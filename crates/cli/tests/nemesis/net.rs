//! A network for nodes: a namespace for each, all connected by a bridge, on which this process is too.
//!
//! Cutting a way drops what comes from one node where another receives it, so one direction can be cut
//! without the other. Jobs reach this process, which records what they do, whatever is cut among nodes:
//! a node that is cut off could do harm if it wanted to.
//!
//! Names hold the number of this process. What a process left behind that was killed is removed
//! by the next one.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What all names begin with.
pub const PREFIX: &str = "bw";

static MADE: AtomicU32 = AtomicU32::new(0);

/// Namespaces that can reach one another.
pub struct Net {
    /// The name of the bridge, and the beginning of all others.
    tag: String,
    subnet: String,
    nodes: usize,
}

/// Runs a program; what it said if it failed.
pub fn run(line: &str, input: Option<&str>) -> Result<String, String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{line}: {error}"))?;
    if let Some(input) = input {
        use std::io::Write;
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    }
    let output = child.wait_with_output().map_err(|error| format!("{line}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let result = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(result) } else { Err(format!("{line}: {}", said.trim())) }
}

/// Runs a program that must not fail.
pub fn must(line: &str) {
    run(line, None).unwrap_or_else(|error| panic!("{error}"));
}

/// What nodes do not take in.
const RULES: &str = "table ip cut {
    set from { type ipv4_addr; }
    chain in { type filter hook input priority 0; ip saddr @from drop; }
}";

/// Why there can be no such network here, if that is so.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("only root can make network namespaces".to_owned());
    }
    let name = format!("{PREFIX}{}x", std::process::id());
    let tried = run(&format!("ip netns add {name}"), None).and_then(|_| {
        let ruled = run(&format!("ip netns exec {name} nft -f -"), Some(RULES));
        let bridged = run(&format!("ip -n {name} link add bw type bridge"), None);
        let paired = run(&format!("ip -n {name} link add bwa type veth peer name bwb"), None);
        ruled.and(bridged).and(paired)
    });
    let _ = run(&format!("ip netns del {name}"), None);
    tried.err()
}

impl Net {
    /// A network for so many nodes.
    pub fn new(nodes: usize) -> Net {
        let (process, serial) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let tag = format!("{PREFIX}{process}x{serial}");
        let (high, low) = (64 + process / 32 % 128, (process % 32) * 8 + serial % 8);
        let net = Net { tag, subnet: format!("10.{high}.{low}"), nodes };
        let Net { tag, subnet, .. } = &net;
        must(&format!("ip link add {tag} type bridge"));
        must(&format!("ip addr add {subnet}.254/24 dev {tag}"));
        must(&format!("ip link set {tag} up"));
        for node in 0..nodes {
            let (name, address) = (net.name(node), net.address(node));
            must(&format!("ip netns add {name}"));
            must(&format!("ip link add {name} type veth peer name eth0 netns {name}"));
            must(&format!("ip link set {name} master {tag} up"));
            must(&format!("ip -n {name} addr add {address}/24 dev eth0"));
            must(&format!("ip -n {name} link set eth0 up"));
            must(&format!("ip -n {name} link set lo up"));
            run(&format!("ip netns exec {name} nft -f -"), Some(RULES)).unwrap();
        }
        net
    }

    fn name(&self, node: usize) -> String {
        format!("{}n{node}", self.tag)
    }

    /// Where a node is.
    pub fn address(&self, node: usize) -> String {
        format!("{}.{}", self.subnet, node + 1)
    }

    /// Where this process is, for nodes.
    pub fn outside(&self) -> String {
        format!("{}.254", self.subnet)
    }

    /// A command that runs a program where a node is.
    pub fn command(&self, node: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(node)]).arg(program);
        command
    }

    /// From now on nothing that one node sends reaches the other.
    pub fn cut(&self, from: usize, to: usize) {
        let (name, address) = (self.name(to), self.address(from));
        must(&format!("ip netns exec {name} nft add element ip cut from {{{address}}}"));
    }

    /// Everything reaches everybody again.
    pub fn heal(&self) {
        for node in 0..self.nodes {
            must(&format!("ip netns exec {} nft flush set ip cut from", self.name(node)));
        }
    }

    /// Kills everything that runs where a node is, as a machine does that goes down.
    pub fn kill_all(&self, node: usize) {
        kill_in(&self.name(node));
    }
}

fn kill_in(namespace: &str) {
    let found = run(&format!("ip netns pids {namespace}"), None).unwrap_or_default();
    for pid in found.lines().filter_map(|line| line.trim().parse().ok()) {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in 0..self.nodes {
            remove_namespace(&self.name(node));
        }
        let _ = run(&format!("ip link del {}", self.tag), None);
    }
}

fn remove_namespace(name: &str) {
    kill_in(name);
    let _ = run(&format!("ip netns del {name}"), None);
    // The end on the bridge goes with the other, but not at once.
    let _ = run(&format!("ip link del {name}"), None);
}

/// Whether a name was made by a process that is not there any more.
fn is_left_over(name: &str) -> bool {
    let Some((process, rest)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('x'))
    else {
        return false;
    };
    let ours = process.parse::<u32>().is_ok()
        && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'n');
    ours && !Path::new("/proc").join(process).exists()
}

/// Removes what processes have left behind that were killed: namespaces, bridges, mounted disks.
pub fn remove_left_overs() {
    let spaces = run("ip netns list", None).unwrap_or_default();
    for name in spaces.lines().filter_map(|line| line.split(' ').next()) {
        if is_left_over(name) {
            remove_namespace(name);
        }
    }
    for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_left_over(&name) {
            let _ = run(&format!("ip link del {name}"), None);
        }
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    for line in mounts.lines().filter(|line| line.starts_with(PREFIX)) {
        let mut words = line.split(' ');
        if let (Some(name), Some(path)) = (words.next(), words.next())
            && is_left_over(name)
        {
            crate::disk::unmount(Path::new(path));
        }
    }
}
