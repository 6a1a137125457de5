//! Who belongs to an attempt, on tables of made-up processes.

use super::*;

fn process(pid: i32, parent: i32, group: i32, session: i32, run: Option<&str>) -> Process {
    let mark =
        run.map(|run| Mark { instance: "store".into(), run_id: run.into(), attempt: "1".into() });
    let id = ProcessId { pid, started: 1000 + u64::try_from(pid).unwrap_or(0) };
    Process { id, parent, group, session, zombie: false, mark }
}

fn members(processes: Vec<Process>, root: Option<ProcessId>) -> Vec<i32> {
    members_after(processes, root, &Known::new())
}

fn members_after(processes: Vec<Process>, root: Option<ProcessId>, known: &Known) -> Vec<i32> {
    let processes = processes.into_iter().map(|process| (process.id.pid, process)).collect();
    let wanted = Wanted { root, mark: &|mark| mark.run_id == "a" };
    let mut pids: Vec<i32> =
        Snapshot { processes }.members(&wanted, known).into_iter().map(|(id, _)| id.pid).collect();
    pids.sort_unstable();
    pids
}

const ROOT: ProcessId = ProcessId { pid: 500_100, started: 1000 + 500_100 };

#[test]
fn r39_members_are_found_by_mark_group_parent_and_session() {
    let table = vec![
        process(1, 0, 1, 1, None),
        process(500_050, 1, 500_050, 500_050, None),
        process(500_100, 500_050, 500_100, 500_050, Some("a")),
        // A child without marks, in the group.
        process(500_101, 500_100, 500_100, 500_050, None),
        // Orphaned and without marks, but in the group.
        process(500_102, 1, 500_100, 500_050, None),
        // Orphaned in a session of its own, with marks; and its children without.
        process(500_103, 1, 500_103, 500_103, Some("a")),
        process(500_104, 500_103, 500_104, 500_103, None),
        process(500_105, 500_104, 500_104, 500_103, None),
        // Other attempts and strangers.
        process(500_200, 500_050, 500_200, 500_050, Some("b")),
        process(500_300, 1, 500_300, 500_300, None),
    ];
    assert_eq!(
        members(table.clone(), Some(ROOT)),
        [500_100, 500_101, 500_102, 500_103, 500_104, 500_105]
    );
    // Without a root, as when looking for orphans, the group still follows from its leader.
    assert_eq!(members(table, None).len(), 6);
}

#[test]
fn r39_a_group_number_used_again_is_not_ours() {
    let mut other = process(ROOT.pid, 1, ROOT.pid, 500_050, None);
    other.id.started += 7;
    let table = vec![other, process(500_101, ROOT.pid, ROOT.pid, 500_050, None)];
    assert!(members(table, Some(ROOT)).is_empty());
}

#[test]
fn r39_the_dead_count_as_relatives_only() {
    let mut zombie = process(ROOT.pid, 500_050, ROOT.pid, 500_050, None);
    zombie.zombie = true;
    let table = vec![zombie, process(500_101, ROOT.pid, 500_101, 500_101, None)];
    assert_eq!(members(table, Some(ROOT)), [500_101]);
}

#[test]
fn r39_what_was_found_before_is_not_lost_when_its_parent_dies() {
    let child = process(500_101, 1, 500_101, 500_101, None);
    let grandchild = process(500_102, 500_101, 500_102, 500_102, None);
    assert!(members(vec![child.clone(), grandchild.clone()], Some(ROOT)).is_empty());
    let known = Known::from([(child.id, None)]);
    let mut recycled = child.clone();
    recycled.id.started += 1;
    assert!(members_after(vec![recycled], Some(ROOT), &known).is_empty());
    assert_eq!(members_after(vec![child, grandchild], Some(ROOT), &known), [500_101, 500_102]);
    let left_in_session = process(500_103, 1, 500_103, 500_101, None);
    assert_eq!(members_after(vec![left_in_session], Some(ROOT), &known), [500_103]);
}

#[test]
fn r65_this_process_and_what_hangs_only_on_it_are_never_members() {
    let own = i32::try_from(std::process::id()).unwrap();
    let table = vec![
        process(own, 1, own, own, Some("a")),
        process(500_101, own, own, own, None),
        process(500_102, own, own, own, Some("a")),
    ];
    assert_eq!(members(table, None), [500_102]);
}

#[test]
fn a_process_can_be_read_whatever_its_name() {
    let own = i32::try_from(std::process::id()).unwrap();
    let process = read_stat(own).unwrap();
    assert_eq!(process.id.pid, own);
    assert!(process.id.started > 0 && process.parent > 0 && !process.zombie);
    assert_eq!(ProcessId::of(own), Some(process.id));
    assert!(ProcessId::of(-1).is_none());
}
