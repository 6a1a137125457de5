//! Control groups in a directory that looks like one, and as far as this machine has them, real ones.

use std::io::Write;
use std::time::SystemTime;

use super::*;
use crate::os;

fn files(path: &Path, contents: &[(&str, &str)]) {
    for (name, text) in contents {
        fs::write(path.join(name), text).unwrap();
    }
}

/// Says so even though the test passes, when the output of tests is caught.
fn skipped(why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

fn read(path: &Path, name: &str) -> String {
    fs::read_to_string(path.join(name)).unwrap()
}

#[test]
fn the_base_is_where_this_process_was_put_or_the_group_above() {
    let mount = |root: &str, place: &str, kind: &str| {
        format!(
            "22 1 8:1 / / rw - ext4 /dev/sda rw\n30 23 0:26 {root} {place} rw,nosuid - {kind} x rw\n"
        )
    };
    let usual = mount("/", "/sys/fs/cgroup", "cgroup2");
    for (mounts, own, base) in [
        (&usual, "0::/\n", Some("/sys/fs/cgroup/")),
        (&usual, "0::/a.slice/b.service\n", Some("/sys/fs/cgroup/a.slice/b.service")),
        (&usual, "0::/b.service/bellwether-main\n", Some("/sys/fs/cgroup/b.service")),
        (&usual, "4:memory:/x\n0::/y\n", Some("/sys/fs/cgroup/y")),
        (&usual, "4:memory:/x\n", None),
        (&mount("/pod", "/cg", "cgroup2"), "0::/pod/c\n", Some("/cg/c")),
        (&mount("/pod", "/cg", "cgroup2"), "0::/elsewhere\n", None),
        (&mount("/", "/sys/fs/cgroup/memory", "cgroup"), "0::/\n", None),
    ] {
        assert_eq!(base_of(mounts, own), base.map(PathBuf::from), "{own}");
    }
}

#[test]
fn a_group_has_its_limit_and_is_read_as_the_kernel_writes() {
    let directory = tempfile::tempdir().unwrap();
    let groups = Groups::at(directory.path().to_owned());
    let group = groups.create("run_1/../2", 64 << 20).unwrap();
    let path = directory.path().join("bellwether-run-run_1----2");
    assert_eq!(group.path, path);
    assert_eq!(read(&path, "memory.max"), (64 << 20).to_string());
    assert_eq!(read(&path, "memory.swap.max"), "0");
    assert_eq!(read(&path, "memory.oom.group"), "1");
    assert_eq!((group.used_bytes(), group.peak_bytes(), group.cpu()), (None, None, None));
    assert!(!group.was_exceeded());
    files(
        &path,
        &[
            ("memory.current", "5000\n"),
            ("memory.stat", "anon 3000\nfile 1900\ninactive_file 1000\nactive_file 500\n"),
            ("memory.peak", "67108864\n"),
            ("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n"),
            ("cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n"),
        ],
    );
    assert_eq!(group.used_bytes(), Some(3500));
    assert_eq!(group.peak_bytes(), Some(64 << 20));
    assert_eq!(group.cpu(), Some(Duration::from_micros(1500)));
    assert!(group.was_exceeded());
    files(&path, &[("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n")]);
    assert!(!group.was_exceeded(), "the machine was short of memory, not the group");
    assert!(groups.create("run_1/../2", 1).is_err(), "there is one already");
}

#[test]
fn a_group_with_processes_is_removed_when_they_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let groups = Groups::at(directory.path().to_owned());
    let group = groups.create("a", 1).unwrap();
    let path = group.path.clone();
    // Files keep this directory, as processes keep a group.
    drop(group);
    assert!(path.exists());
    for name in ["memory.max", "memory.swap.max", "memory.oom.group"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    let _next = groups.create("b", 1).unwrap();
    assert!(!path.exists() && groups.busy().is_empty());
}

#[test]
fn what_an_earlier_process_left_is_removed_unless_it_may_be_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str, age: Duration| {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        let made = SystemTime::now().checked_sub(age).unwrap();
        File::open(&path).unwrap().set_modified(made).unwrap();
        path
    };
    let old = make("bellwether-run-old", LEFTOVER_AGE_MIN * 2);
    let kept = [
        make("bellwether-run-new", Duration::ZERO),
        make("bellwether-main", LEFTOVER_AGE_MIN * 2),
        make("another", LEFTOVER_AGE_MIN * 2),
    ];
    sweep(directory.path());
    assert!(!old.exists() && kept.iter().all(|path| path.exists()));
}

#[test]
fn memory_is_passed_on_only_by_a_process_that_may() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    pass_memory_on(base).unwrap();
    assert_eq!(read(base, "cgroup.subtree_control"), "+memory");
    files(base, &[("cgroup.subtree_control", "cpu memory pids\n")]);
    assert!(lists_memory(&base.join("cgroup.subtree_control")));
    files(base, &[("cgroup.subtree_control", "cpu memory_other\n")]);
    assert!(!lists_memory(&base.join("cgroup.subtree_control")));
}

#[test]
fn a_process_moves_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (base, own) = (directory.path(), std::process::id());
    files(base, &[("cgroup.procs", &format!("{own}\n1\n"))]);
    assert!(!step_aside(base).unwrap() && !base.join(MAIN).exists());
    files(base, &[("cgroup.procs", &format!("{own}\n"))]);
    assert!(step_aside(base).unwrap());
    assert_eq!(read(&base.join(MAIN), "cgroup.procs"), own.to_string());
}

/// Whether or not there is a memory controller: a command is a member before it is executed.
#[tokio::test]
async fn a_command_is_in_its_group_from_the_start() {
    let Ok(base) = base() else { return skipped("there are no control groups (v2)") };
    let path = base.join(format!("bellwether-test-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&path) {
        return skipped(&format!("no group can be made in {}: {error}", base.display()));
    }
    let group = Group { path: path.clone(), groups: Groups::at(base) };
    let entered = group.entrance().map(|entrance| {
        let mut command = tokio::process::Command::new("/bin/cat");
        command.arg("/proc/self/cgroup").kill_on_drop(true);
        os::enter_group(&mut command, entrance);
        command
    });
    let said = match entered {
        Ok(mut command) => command.output().await,
        Err(error) => Err(error),
    };
    let cpu = group.cpu();
    drop(group);
    assert!(!path.exists(), "a group without processes is removed at once");
    match said {
        Ok(said) => {
            let text = String::from_utf8(said.stdout).unwrap();
            let line = text.lines().find(|line| line.starts_with("0::")).unwrap();
            assert!(path.ends_with(line.rsplit('/').next().unwrap()), "{text}");
            assert!(cpu.is_some_and(|cpu| !cpu.is_zero()), "{cpu:?}");
        }
        Err(error) => skipped(&format!("no process can be put into a group: {error}")),
    }
}
