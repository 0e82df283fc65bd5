//! The scripts for clusters: `docs/examples/slurm.sh` on a Slurm of one controller and one node, which the test starts
//! and stops, and `docs/examples/torchrun.sh` on simulated GPUs.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::tool::{python, text};

/// A controller and a node of Slurm, on ports of their own.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn output_of(command: &mut Command) -> Option<String> {
    command.output().ok().filter(|output| output.status.success()).map(|output| text(&output.stdout).trim().to_owned())
}

/// Two ports that nothing listens on.
fn ports() -> [u16; 2] {
    let sockets = [0, 1].map(|_| std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

impl Slurm {
    /// Starts it; the reason where that is not possible here.
    fn start() -> Result<Self, &'static str> {
        if output_of(Command::new("id").arg("-u")).as_deref() != Some("0") {
            return Err("the daemons of Slurm start jobs as other users, which takes root");
        }
        if output_of(Command::new("slurmd").arg("-V")).is_none()
            || output_of(Command::new("sbatch").arg("-V")).is_none()
        {
            return Err("there is no Slurm (apt-get install slurmctld slurmd slurm-client)");
        }
        let host = output_of(Command::new("hostname").arg("-s")).ok_or("this machine has no name")?;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        let [controller, node] = ports();
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let configuration = format!(
            "ClusterName=ptmem\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
             SlurmUser=root\nSlurmdUser=root\nAuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerParameters=sched_min_interval=0\n\
             StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/spool\nSlurmctldPidFile={place}/ctl.pid\n\
             SlurmdPidFile={place}/d.pid\nSlurmctldLogFile={place}/ctl.log\nSlurmdLogFile={place}/d.log\n\
             ReturnToService=2\nNodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN\n\
             PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::create_dir(folder.path().join("spool")).unwrap();
        fs::write(folder.path().join("slurm.conf"), configuration).unwrap();
        let mut slurm = Self { folder, daemons: Vec::new() };
        for daemon in ["slurmctld", "slurmd"] {
            let mut command = slurm.command(daemon);
            let started = command.arg("-D").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            slurm.daemons.push(started.map_err(|_| "the daemons of Slurm do not start")?);
        }
        let is_idle = |state: &str| state == "idle";
        for _ in 0..300 {
            if output_of(slurm.command("sinfo").args(["-h", "-o", "%t"])).is_some_and(|state| is_idle(&state)) {
                return Ok(slurm);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Err("Slurm has no node that is ready after 30 seconds")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf")).env("PATH", path());
        command
    }

    /// Runs the script for ranks whose snapshots lie in a folder.
    fn gate(&self, place: &Path, before: &Path, snapshots: &Path) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/slurm.sh");
        let record = format!("cp {}/snapshot_rank$SLURM_ARRAY_TASK_ID.pkl $PTMEM_SNAPSHOT", snapshots.display());
        let mut command = self.command("bash");
        command.current_dir(place).arg(script).arg(before).args(["after of it", "4", "bash", "-c", &record]);
        command.output().unwrap()
    }
}

/// The path with the program that is tested before all others.
fn path() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_ptmem")).parent().unwrap().display();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

#[test]
#[ignore = "needs Slurm and root: apt-get install slurmctld slurmd slurm-client"]
fn an_array_of_slurm_is_compared_by_a_job_that_waits_for_it() {
    let slurm = Slurm::start().unwrap();
    let place = tempfile::tempdir().unwrap();
    let before = place.path().join("before of it");
    let [good, bad] = ["ranks-before", "ranks-after"].map(|name| fixtures::folder().join(name));
    let first = slurm.gate(place.path(), &before, &good);
    assert_eq!(first.status.code(), Some(0), "{} {}", text(&first.stdout), text(&first.stderr));
    assert!(before.join("rank3.ptmem.json").is_file());
    let same = slurm.gate(place.path(), &before, &good);
    assert_eq!(same.status.code(), Some(0), "{} {}", text(&same.stdout), text(&same.stderr));
    assert!(text(&same.stdout).contains("PASS"), "{}", text(&same.stdout));
    let grown = slurm.gate(place.path(), &before, &bad);
    assert_eq!(grown.status.code(), Some(1), "{} {}", text(&grown.stdout), text(&grown.stderr));
    assert!(text(&grown.stdout).contains("FAIL rank 3: peak grew"), "{}", text(&grown.stdout));
    assert!(place.path().join("after of it/report.json").is_file());
    // A rank that records nothing.
    let none = slurm.gate(place.path(), &before, &fixtures::folder());
    assert_ne!(none.status.code(), Some(0));
    assert!(text(&none.stderr).contains("not all ranks were recorded"), "{}", text(&none.stderr));
}

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn torchrun_on_simulated_gpus_is_compared_rank_by_rank() {
    let python = python();
    let place = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |before: &str, after: &str| {
        let mut command = Command::new("bash");
        command.current_dir(place.path()).arg(root.join("docs/examples/torchrun.sh")).args([before, after, "2"]);
        command.arg(root.join("crates/simulate/tests/torch/programs.py")).args(["data_parallel", "counters.json"]);
        command.env("PATH", path()).env("PYTHON", &python).env("PTMEM_SIMULATE_OPTIONS", "--memory 4GiB");
        command.output().unwrap()
    };
    let first = run("before", "before");
    assert_eq!(first.status.code(), Some(0), "{} {}", text(&first.stdout), text(&first.stderr));
    assert!(place.path().join("before/rank1.ptmem.json").is_file());
    let same = run("before", "after");
    assert_eq!(same.status.code(), Some(0), "{} {}", text(&same.stdout), text(&same.stderr));
    assert!(text(&same.stdout).contains("2 ranks"), "{}", text(&same.stdout));
}
