#!/bin/sh
# A run that outlives its job: sbatch slurm.sh RECIPE RUN [OPTION...]
#
# Two minutes before the time limit np-train gets a signal, finishes the steps in flight, writes a
# checkpoint and exits with 75; then the job queues itself again, and goes on where it was. Slurm
# signals steps, not what a script starts by itself: hence srun (or exec, where the script ends with
# the command).
#
#SBATCH --job-name=supernet
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
# Of 4 processes that train together: --ntasks=4, and srun --mpi=pmix (Open MPI) or --mpi=pmi2
# (MPICH) np-train --backend mpi.
recipe=$1 run=$2
shift 2

resume=
[ -d "$run" ] && resume=--resume
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" np-train "$recipe" --run "$run" $resume "$@"
status=$?
[ "$status" -eq 75 ] && scontrol requeue "$SLURM_JOB_ID"
exit "$status"
