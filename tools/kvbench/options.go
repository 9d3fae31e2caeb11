package kvbench

import (
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
)

// Bench are the options of a benchmark run: those of nixlbench, spelled as there and in the order in which the original
// writes them, and the source and the destination, by which a plan decides about some of them. A nil pointer is an
// option that is not given; the tag nixlbench is the value that nixlbench then assumes. The tag scenario marks what
// perigee run kvbench has, too. What depends on the plan is set by [route] and [BlockPlan.command] in a copy.
type Bench struct {
	Source              *string     `name:"source" enum:"file,memory,gpu" placeholder:"KIND" group:"Benchmark" help:"Where the cache is read from: file, memory or gpu (default: file for storage backends, otherwise memory)."`
	Destination         *string     `name:"destination" enum:"file,memory,gpu" placeholder:"KIND" group:"Benchmark" help:"Where it is written to: file, memory or gpu (default: memory)."`
	BenchmarkGroup      string      `name:"benchmark_group" default:"default" group:"Benchmark" help:"Name that keeps benchmarks on one etcd apart."`
	Backend             string      `name:"backend" scenario:"" default:"UCX" group:"Benchmark" help:"UCX, UCX_MO, GPUNETIO, Mooncake, LIBFABRIC; storage: GDS, GDS_MT, POSIX, HF3FS, OBJ, GUSLI, AZURE_BLOB, INFINIA."`
	CheckConsistency    bool        `name:"check_consistency" scenario:"" group:"Benchmark" help:"Compare the bytes that arrive."`
	DeviceList          string      `name:"device_list" default:"all" group:"Benchmark" help:"Devices, separated by commas."`
	EnablePT            bool        `name:"enable_pt" group:"Benchmark" help:"Progress thread."`
	ProgressThreads     int64       `name:"progress_threads" min:"0" max:"2147483647" default:"0" group:"Benchmark" help:"Number of progress threads."`
	EtcdEndpoints       string      `name:"etcd_endpoints" aliases:"etcd-endpoint" default:"http://localhost:2379" group:"Benchmark" help:"Address of etcd."`
	StorageEnableDirect bool        `name:"storage_enable_direct" scenario:"" group:"Storage" help:"Direct I/O."`
	Filepath            string      `name:"filepath" scenario:"" aliases:"gds_filepath" placeholder:"PATH" group:"Storage" help:"Folder or file of the storage."`
	EnableVMM           bool        `name:"enable_vmm" group:"Benchmark" help:"VMM allocation where DRAM is asked for."`
	GDSBatchPoolSize    int64       `name:"gds_batch_pool_size" min:"1" max:"2147483647" default:"32" group:"Storage" help:"GDS: size of the batch pool."`
	GDSBatchLimit       int64       `name:"gds_batch_limit" min:"1" max:"2147483647" default:"128" group:"Storage" help:"GDS: largest batch."`
	InitiatorSegType    *string     `name:"initiator_seg_type" nixlbench:"DRAM" scenario:"" enum:"DRAM,VRAM" placeholder:"DRAM" group:"Benchmark" help:"Memory of the initiator: DRAM or VRAM (default: by --source)."`
	MaxBatchSize        *int64      `name:"max_batch_size" nixlbench:"1" scenario:"" placeholder:"N" group:"Benchmark" help:"${sizes=Set by the plan.}"`
	MaxBlockSize        *int64      `name:"max_block_size" nixlbench:"67108864" scenario:"" placeholder:"BYTES" group:"Benchmark" help:"${sizes=Set by the plan.}"`
	Mode                string      `name:"mode" enum:"SG,MG" default:"SG" group:"Benchmark" help:"One GPU per process (SG) or several (MG)."`
	NumFiles            int64       `name:"num_files" min:"1" max:"2147483647" scenario:"" default:"1" group:"Storage" help:"Number of files."`
	NumInitiatorDev     int64       `name:"num_initiator_dev" min:"1" max:"2147483647" scenario:"" default:"1" group:"Benchmark" help:"Devices of the initiating processes."`
	NumIter             int64       `name:"num_iter" aliases:"iters" min:"1" max:"2147483647" scenario:"" default:"1000" group:"Benchmark" help:"Iterations."`
	NumTargetDev        int64       `name:"num_target_dev" min:"1" max:"2147483647" scenario:"" default:"1" group:"Benchmark" help:"Devices of the target processes."`
	NumThreads          int64       `name:"num_threads" min:"1" max:"2147483647" scenario:"" default:"1" group:"Benchmark" help:"Threads of the benchmark."`
	OpType              *string     `name:"op_type" nixlbench:"WRITE" scenario:"" enum:"READ,WRITE" placeholder:"WRITE" group:"Benchmark" help:"READ or WRITE (default: WRITE; storage backends: by --source)."`
	PosixAPIType        string      `name:"posix_api_type" scenario:"" enum:"AIO,URING,POSIXAIO" default:"AIO" group:"Storage" help:"POSIX: AIO, URING or POSIXAIO."`
	RuntimeType         string      `name:"runtime_type" enum:"ETCD,ASIO" default:"ETCD" group:"Benchmark" help:"How the processes find each other: ETCD or ASIO."`
	Scheme              string      `name:"scheme" scenario:"" enum:"pairwise,manytoone,onetomany,tp" default:"pairwise" group:"Benchmark" help:"Which ranks send to which: pairwise, manytoone, onetomany or tp."`
	StartBatchSize      *int64      `name:"start_batch_size" nixlbench:"1" scenario:"" placeholder:"N" group:"Benchmark" help:"${sizes=Set by the plan.}"`
	StartBlockSize      *int64      `name:"start_block_size" nixlbench:"4096" scenario:"" placeholder:"BYTES" group:"Benchmark" help:"${sizes=Set by the plan.}"`
	TargetSegType       *string     `name:"target_seg_type" nixlbench:"DRAM" scenario:"" enum:"DRAM,VRAM" placeholder:"DRAM" group:"Benchmark" help:"Memory of the target: DRAM or VRAM (default: by --destination)."`
	TotalBufferSize     *size.Bytes `name:"total_buffer_size" nixlbench:"8589934592" scenario:"" placeholder:"SIZE" group:"Benchmark" help:"Buffer of each process (default: 8 GiB, or more if the plan needs it)."`
	WarmupIter          int64       `name:"warmup_iter" min:"0" max:"2147483647" scenario:"" default:"100" group:"Benchmark" help:"Iterations before them."`
	WorkerType          string      `name:"worker_type" enum:"nixl,nvshmem" default:"nixl" group:"Benchmark" help:"What moves the data: nixl or nvshmem."`
	GDSMTNumThreads     int64       `name:"gds_mt_num_threads" min:"1" max:"2147483647" default:"1" group:"Storage" help:"GDS_MT: threads."`
	GPUNetIODeviceList  string      `name:"gpunetio_device_list" default:"0" group:"Storage" help:"GPUNETIO: GPUs."`
	GPUNetIOOOBList     string      `name:"gpunetio_oob_list" placeholder:"NAMES" group:"Storage" help:"GPUNETIO: interfaces for control."`
	HF3FSIOPoolSize     int64       `name:"hf3fs_iopool_size" min:"1" max:"2147483647" default:"64" group:"Storage" help:"HF3FS: size of the I/O pool."`
	ObjAccessKey        string      `name:"obj_access_key" placeholder:"KEY" group:"Storage" help:"OBJ: access key."`
	ObjSecretKey        string      `name:"obj_secret_key" placeholder:"KEY" group:"Storage" help:"OBJ: secret key."`
	ObjSessionToken     string      `name:"obj_session_token" placeholder:"TOKEN" group:"Storage" help:"OBJ: session token."`
	ObjBucketName       string      `name:"obj_bucket_name" placeholder:"NAME" group:"Storage" help:"OBJ: bucket."`
	ObjScheme           string      `name:"obj_scheme" enum:"http,https" default:"http" group:"Storage" help:"OBJ: http or https."`
	ObjRegion           string      `name:"obj_region" default:"eu-central-1" group:"Storage" help:"OBJ: region."`
	ObjVirtual          bool        `name:"obj_use_virtual_addressing" group:"Storage" help:"OBJ: virtual addressing."`
	ObjEndpoint         string      `name:"obj_endpoint_override" placeholder:"URL" group:"Storage" help:"OBJ: endpoint."`
	ObjChecksum         string      `name:"obj_req_checksum" enum:"supported,required" default:"supported" group:"Storage" help:"OBJ: checksums supported or required."`
	LargeBlkIterFtr     int64       `name:"large_blk_iter_ftr" min:"1" max:"2147483647" scenario:"" default:"16" group:"Benchmark" help:"Blocks over 1 MiB: so many times fewer iterations."`
	RecreateXfer        bool        `name:"recreate_xfer" scenario:"" group:"Benchmark" help:"Make the transfer request anew in each iteration."`
	PipelineDepth       int64       `name:"pipeline_depth" min:"1" max:"2147483647" scenario:"" default:"1" group:"Benchmark" help:"Requests under way at the same time (newer nixlbench)."`
	PreparedXfer        bool        `name:"prepared_xfer" scenario:"" group:"Benchmark" help:"Prepare descriptor lists once and make requests from them (newer nixlbench)."`
	ReregisterMem       bool        `name:"reregister_mem" scenario:"" group:"Benchmark" help:"Register the memory anew in each iteration (newer nixlbench)."`
	UseHugepages        bool        `name:"use_hugepages" scenario:"" group:"Benchmark" help:"Huge pages for host memory (newer nixlbench)."`
	RandomizeLocation   string      `name:"randomize_location_mode" scenario:"" enum:",blockaligned" default:"" placeholder:"MODE" group:"Storage" help:"Order of the blocks in files: blockaligned shuffles them (newer nixlbench)."`
	RandomLocationSeed  int64       `name:"randomize_location_mode_seed" min:"0" max:"2147483647" scenario:"" default:"0" group:"Storage" help:"Seed of this order (newer nixlbench)."`
}

// DefaultBench returns what the command line starts from.
var DefaultBench = sync.OnceValue(func() (b Bench) {
	if _, err := cli.Take(&b, nil); err != nil {
		panic(err) // the tags above are wrong
	}
	return b
})

// defaultTotal is nixlbench's buffer, in bytes.
const defaultTotal = 8 << 30

// flag is an option of nixlbench and its value: a string, an int64 or a bool.
type flag struct {
	name     string
	value    any
	scenario bool // whether the scenario has it, too
}

// flags returns all options of nixlbench in their order.
func (b Bench) flags() []flag {
	fields := benchFields()
	list := make([]flag, 0, len(fields))
	values := reflect.ValueOf(b)
	for _, field := range fields {
		f := flag{name: field.name, scenario: field.scenario}
		switch v := reflect.Indirect(values.Field(field.index)); v.Kind() {
		case reflect.Invalid:
			f.value = field.assumed
		case reflect.Int64:
			f.value = v.Int()
		default:
			f.value = v.Interface()
		}
		list = append(list, f)
	}
	return list
}

// benchField is a member of Bench that nixlbench has.
type benchField struct {
	index    int
	name     string
	scenario bool
	assumed  any // by nixlbench, where the option is not given: a text or a number
}

// benchFields reads the tags of Bench.
var benchFields = sync.OnceValue(func() (list []benchField) {
	for i := range reflect.TypeFor[Bench]().NumField() {
		member := reflect.TypeFor[Bench]().Field(i)
		assumed, ok := member.Tag.Lookup("nixlbench")
		if member.Type.Kind() == reflect.Pointer && !ok {
			continue // nixlbench does not have it
		}
		f := benchField{index: i, name: member.Tag.Get("name"), assumed: assumed}
		_, f.scenario = member.Tag.Lookup("scenario")
		if n, err := strconv.ParseInt(assumed, 10, 64); err == nil {
			f.assumed = n
		}
		list = append(list, f)
	}
	return list
})

// check refuses numbers that nixlbench refuses.
func (b Bench) check() error {
	if total := cli.Given(b.TotalBufferSize, 1); total < 1 {
		return usage("--total_buffer_size: wanted at least 1, got %d", total)
	}
	if err := b.checkDevices(); err != nil {
		return err
	}
	return b.checkIterations()
}

// checkDevices holds a list of devices against the numbers of devices: nixlbench wants one for each where a device
// talks with one other.
func (b Bench) checkDevices() error {
	n := int64(strings.Count(b.DeviceList, ",") + 1)
	if b.DeviceList == "all" || b.Scheme != "pairwise" || b.WorkerType == "nvshmem" || n == b.NumInitiatorDev &&
		n == b.NumTargetDev {
		return nil
	}
	return usage("--device_list %s: with the scheme pairwise wanted a device for each of --num_initiator_dev %d and --num_target_dev %d, got %d",
		b.DeviceList, b.NumInitiatorDev, b.NumTargetDev, n)
}

// checkIterations checks the iterations after nixlbench's rounding: it rounds both numbers up to a multiple of threads
// by factor, in 32 bits.
func (b Bench) checkIterations() error {
	part := times(big.NewInt(b.NumThreads), b.LargeBlkIterFtr)
	for _, n := range []struct {
		flag  string
		value int64
	}{{"iters", b.NumIter}, {"warmup_iter", b.WarmupIter}} {
		rounded := ceilDiv(big.NewInt(n.value), part)
		if rounded.Mul(rounded, part); rounded.Cmp(big.NewInt(math.MaxInt32)) > 0 {
			return usage("--%s %d: nixlbench rounds it up to a multiple of --num_threads x --large_blk_iter_ftr, %d; that is %d, and more than %d",
				n.flag, n.value, part, rounded, math.MaxInt32)
		}
	}
	if devices := times(big.NewInt(b.NumThreads), max(b.NumInitiatorDev,
		b.NumTargetDev)); devices.Cmp(big.NewInt(math.MaxInt32)) > 0 {
		return usage("--num_threads %d with %d devices: nixlbench counts both together, to %d", b.NumThreads,
			max(b.NumInitiatorDev, b.NumTargetDev), math.MaxInt32)
	}
	return nil
}
