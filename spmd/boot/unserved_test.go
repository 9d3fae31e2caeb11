package boot

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// A process of a launcher that perigee cannot serve is no job by itself; one that is alone, or of which the user
// says who starts the ranks, does.
func TestUnserved(t *testing.T) {
	for _, c := range []struct{ env, says, line, note string }{
		{env: ""},
		{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 PMI_RANK=1 PMI_SIZE=4", "MV2_COMM_WORLD_RANK=1 and MV2_COMM_WORLD_SIZE=4 say that this is one of several processes of MVAPICH", "RANK=$MV2_COMM_WORLD_RANK WORLD_SIZE=$MV2_COMM_WORLD_SIZE MASTER_ADDR=HOST_OF_RANK_0 MASTER_PORT=29500 exec perigee", ""},
		{"MVP_COMM_WORLD_RANK=0 MVP_COMM_WORLD_SIZE=2", "MVAPICH", "RANK=$MVP_COMM_WORLD_RANK", ""},
		{"PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=4", "of PALS", "RANK=$PALS_RANKID WORLD_SIZE=$PMI_SIZE", ""},
		{"PALS_RANKID=3", "", "", "PALS_RANKID=3 is a variable of PALS"},
		{"PMI_RANK=0 PMI_SIZE=4", "a launcher with PMI", "RANK=$PMI_RANK", ""},
		{"PMI_RANK=0 PMI_SIZE=4 PMI_FD=9", "", "", ""}, // left over, or [Started] says it
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "Open MPI without PMIx", "RANK=$OMPI_COMM_WORLD_RANK", ""},
		{"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", "of Flux", "RANK=$FLUX_TASK_RANK", ""},
		{"JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=2", "of JSM", "RANK=$JSM_NAMESPACE_RANK", ""},
		{"LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=a.b", "of LeaderWorkerSet", "MASTER_ADDR=$LWS_LEADER_ADDRESS", ""},
		{"PET_NODE_RANK=1 PET_NNODES=2", "PyTorchJob", "WORLD_SIZE=$PET_NNODES", ""},
		{"PET_NODE_RANK=1 PET_NNODES=1:4", "PET_NNODES=1:4", "WORLD_SIZE=NUMBER", ""},
		{"JOB_COMPLETION_INDEX=2", "", "", "JOB_COMPLETION_INDEX=2 is a variable of an indexed job of Kubernetes"},
		{"SLURM_PROCID=1 SLURM_NTASKS=2", "Slurm without a step", "RANK=$SLURM_PROCID", ""},
		{"SLURM_PROCID=0 SLURM_NTASKS=2", "", "", ""}, // a batch script
		{"MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=1 PMI_RANK=0 PMI_SIZE=1", "", "", ""},
		{"PET_NODE_RANK=0 PET_NNODES=1", "", "", ""},
		{"FLUX_TASK_RANK=x FLUX_JOB_SIZE=2", "", "", ""},
		{"HOROVOD_RANK=1 HOROVOD_SIZE=2 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2", "of Horovod", "RANK=$HOROVOD_RANK", ""},
		{"NEW_COMM_WORLD_RANK=1 NEW_COMM_WORLD_SIZE=4", "of an unknown launcher", "RANK=$NEW_COMM_WORLD_RANK WORLD_SIZE=$NEW_COMM_WORLD_SIZE", ""},
		{"NEW_RANK=0 NEW_WORLD_SIZE=4", "NEW_RANK=0 and NEW_WORLD_SIZE=4 say", "RANK=$NEW_RANK", ""},
		{"MYAPP_RANK=0 MYAPP_SIZE=8", "", "", "MYAPP_RANK=0 and MYAPP_SIZE=8 may be variables of an unknown launcher: what"},
		{"MYAPP_PROCID=7 MYAPP_NTASKS=8", "", "", "MYAPP_PROCID=7 and MYAPP_NTASKS=8 may be"},
		{"MYAPP_RANK=0 MYAPP_SIZE=1", "", "", ""},
		{"MYAPP_RANK=8 MYAPP_SIZE=8 MYAPP_WORLD_SIZE=8", "", "", ""},
		{"MYAPP_RANK=x MYAPP_SIZE=8 OTHER_RANK=1 OTHER_WORLD_SIZES=4 _RANK=0 _SIZE=2", "", "", ""},
		{"NEW_RANK=0 OTHER_WORLD_SIZE=4", "", "", ""},
		{"LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=2 ROLE_RANK=0 ROLE_WORLD_SIZE=4", "", "", ""},
		{"NCCL_RANK=0 NCCL_WORLD_SIZE=4 KERAS_RANK=0 KERAS_SIZE=2 VLLM_DP_RANK=0 VLLM_DP_SIZE=4 NEW_LOCAL_RANK=0 NEW_LOCAL_SIZE=2", "", "", ""},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NODE_RANK=0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=x", "", "", ""},
		{"NEW_RANK=0 NEW_WORLD_SIZE=4 PERIGEE_LAUNCHER=local", "", "", ""},
		{"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PERIGEE_LAUNCHER=local", "", "", ""},
		{"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PERIGEE_LAUNCHER=auto", "of Flux", "RANK=$FLUX_TASK_RANK", ""},
	} {
		note, err := Unserved(environ(vars(c.env)), slices.Collect(maps.Keys(vars(c.env))))
		if (err != nil) != (c.says != "") || err != nil && (fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(fault.HintOf(err), c.line) || !strings.Contains(fault.HintOf(err), "-n N or --launcher local")) {
			t.Errorf("%q: got %v (%s), want %q", c.env, err, fault.HintOf(err), c.says)
		}
		if (note == "") != (c.note == "") || !strings.HasPrefix(note, c.note) {
			t.Errorf("%q: note %q, want %q", c.env, note, c.note)
		}
		if launcher, started, err := Started(environ(vars(c.env))); started && c.says != "" {
			t.Errorf("%q: a rank of %s, %v", c.env, launcher, err)
		}
	}
}
