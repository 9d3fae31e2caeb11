package kvbench

import (
	"math"
	"math/big"
	"strings"

	"perigee/internal/size"
)

// Bench are the options of a benchmark run, spelled as nixlbench spells them. A
// nil pointer is an option that is not given. What depends on the plan is set by
// [route] and [Plan.command] in a copy.
type Bench struct {
	Source           *string     `name:"source" enum:"file,memory,gpu" placeholder:"KIND" group:"Benchmark" help:"Where the cache is read from: file, memory or gpu (default: file for storage backends, otherwise memory)."`
	Destination      *string     `name:"destination" enum:"file,memory,gpu" placeholder:"KIND" group:"Benchmark" help:"Where it is written to: file, memory or gpu (default: memory)."`
	Backend          string      `name:"backend" default:"UCX" group:"Benchmark" help:"UCX, UCX_MO, GPUNETIO, Mooncake; storage: GDS, GDS_MT, POSIX, HF3FS, OBJ."`
	WorkerType       string      `name:"worker_type" enum:"nixl,nvshmem" default:"nixl" group:"Benchmark" help:"What moves the data: nixl or nvshmem."`
	InitiatorSegType *string     `name:"initiator_seg_type" enum:"DRAM,VRAM" placeholder:"DRAM" group:"Benchmark" help:"Memory of the initiator: DRAM or VRAM (default: by --source)."`
	TargetSegType    *string     `name:"target_seg_type" enum:"DRAM,VRAM" placeholder:"DRAM" group:"Benchmark" help:"Memory of the target: DRAM or VRAM (default: by --destination)."`
	Scheme           string      `name:"scheme" enum:"pairwise,manytoone,onetomany,tp" default:"pairwise" group:"Benchmark" help:"Which ranks send to which: pairwise, manytoone, onetomany or tp."`
	Mode             string      `name:"mode" enum:"SG,MG" default:"SG" group:"Benchmark" help:"One GPU per process (SG) or several (MG)."`
	OpType           *string     `name:"op_type" enum:"READ,WRITE" placeholder:"WRITE" group:"Benchmark" help:"READ or WRITE (default: WRITE; storage backends: by --source)."`
	CheckConsistency bool        `name:"check_consistency" group:"Benchmark" help:"Compare the bytes that arrive."`
	TotalBufferSize  *size.Bytes `name:"total_buffer_size" placeholder:"SIZE" group:"Benchmark" help:"Buffer of each process (default: 8 GiB, or more if the plan needs it)."`
	StartBlockSize   *int64      `name:"start_block_size" placeholder:"BYTES" group:"Benchmark" help:"Set by the plan."`
	MaxBlockSize     *int64      `name:"max_block_size" placeholder:"BYTES" group:"Benchmark" help:"Set by the plan."`
	StartBatchSize   *int64      `name:"start_batch_size" placeholder:"N" group:"Benchmark" help:"Set by the plan."`
	MaxBatchSize     *int64      `name:"max_batch_size" placeholder:"N" group:"Benchmark" help:"Set by the plan."`
	NumIter          int64       `name:"num_iter" default:"1000" group:"Benchmark" help:"Iterations."`
	WarmupIter       int64       `name:"warmup_iter" default:"100" group:"Benchmark" help:"Iterations before them."`
	LargeBlkIterFtr  int64       `name:"large_blk_iter_ftr" default:"16" group:"Benchmark" help:"Blocks over 1 MiB: so many times fewer iterations."`
	NumThreads       int64       `name:"num_threads" default:"1" group:"Benchmark" help:"Threads of the benchmark."`
	NumInitiatorDev  int64       `name:"num_initiator_dev" default:"1" group:"Benchmark" help:"Devices of the initiating processes."`
	NumTargetDev     int64       `name:"num_target_dev" default:"1" group:"Benchmark" help:"Devices of the target processes."`
	RecreateXfer     bool        `name:"recreate_xfer" group:"Benchmark" help:"Make the transfer request anew in each iteration."`
	EnablePT         bool        `name:"enable_pt" group:"Benchmark" help:"Progress thread."`
	ProgressThreads  int64       `name:"progress_threads" default:"0" group:"Benchmark" help:"Number of progress threads."`
	DeviceList       string      `name:"device_list" default:"all" group:"Benchmark" help:"Devices, separated by commas."`
	RuntimeType      string      `name:"runtime_type" enum:"ETCD,ASIO" default:"ETCD" group:"Benchmark" help:"How the processes find each other: ETCD or ASIO."`
	EtcdEndpoints    string      `name:"etcd_endpoints" aliases:"etcd-endpoint" default:"http://localhost:2379" group:"Benchmark" help:"Address of etcd."`
	BenchmarkGroup   string      `name:"benchmark_group" default:"default" group:"Benchmark" help:"Name that keeps benchmarks on one etcd apart."`
	EnableVMM        bool        `name:"enable_vmm" group:"Benchmark" help:"VMM allocation where DRAM is asked for."`
	// Of versions of nixlbench from July 2026 on.
	PipelineDepth      int64  `name:"pipeline_depth" default:"1" group:"Benchmark" help:"Requests under way at the same time (newer nixlbench)."`
	PreparedXfer       bool   `name:"prepared_xfer" group:"Benchmark" help:"Prepare descriptor lists once and make requests from them (newer nixlbench)."`
	ReregisterMem      bool   `name:"reregister_mem" group:"Benchmark" help:"Register the memory anew in each iteration (newer nixlbench)."`
	UseHugepages       bool   `name:"use_hugepages" group:"Benchmark" help:"Huge pages for host memory (newer nixlbench)."`
	RandomizeLocation  string `name:"randomize_location_mode" enum:",blockaligned" default:"" placeholder:"MODE" group:"Storage" help:"Order of the blocks in files: blockaligned shuffles them (newer nixlbench)."`
	RandomLocationSeed int64  `name:"randomize_location_mode_seed" default:"0" group:"Storage" help:"Seed of this order (newer nixlbench)."`

	StorageEnableDirect bool   `name:"storage_enable_direct" group:"Storage" help:"Direct I/O."`
	Filepath            string `name:"filepath" aliases:"gds_filepath" placeholder:"PATH" group:"Storage" help:"Folder or file of the storage."`
	NumFiles            int64  `name:"num_files" default:"1" group:"Storage" help:"Number of files."`
	PosixAPIType        string `name:"posix_api_type" enum:"AIO,URING,POSIXAIO" default:"AIO" group:"Storage" help:"POSIX: AIO, URING or POSIXAIO."`
	GDSBatchPoolSize    int64  `name:"gds_batch_pool_size" default:"32" group:"Storage" help:"GDS: size of the batch pool."`
	GDSBatchLimit       int64  `name:"gds_batch_limit" default:"128" group:"Storage" help:"GDS: largest batch."`
	GDSMTNumThreads     int64  `name:"gds_mt_num_threads" default:"1" group:"Storage" help:"GDS_MT: threads."`
	HF3FSIOPoolSize     int64  `name:"hf3fs_iopool_size" default:"64" group:"Storage" help:"HF3FS: size of the I/O pool."`
	GPUNetIODeviceList  string `name:"gpunetio_device_list" default:"0" group:"Storage" help:"GPUNETIO: GPUs."`
	GPUNetIOOOBList     string `name:"gpunetio_oob_list" placeholder:"NAMES" group:"Storage" help:"GPUNETIO: interfaces for control."`
	ObjAccessKey        string `name:"obj_access_key" placeholder:"KEY" group:"Storage" help:"OBJ: access key."`
	ObjSecretKey        string `name:"obj_secret_key" placeholder:"KEY" group:"Storage" help:"OBJ: secret key."`
	ObjSessionToken     string `name:"obj_session_token" placeholder:"TOKEN" group:"Storage" help:"OBJ: session token."`
	ObjBucketName       string `name:"obj_bucket_name" placeholder:"NAME" group:"Storage" help:"OBJ: bucket."`
	ObjScheme           string `name:"obj_scheme" enum:"http,https" default:"http" group:"Storage" help:"OBJ: http or https."`
	ObjRegion           string `name:"obj_region" default:"eu-central-1" group:"Storage" help:"OBJ: region."`
	ObjVirtual          bool   `name:"obj_use_virtual_addressing" group:"Storage" help:"OBJ: virtual addressing."`
	ObjEndpoint         string `name:"obj_endpoint_override" placeholder:"URL" group:"Storage" help:"OBJ: endpoint."`
	ObjChecksum         string `name:"obj_req_checksum" enum:"supported,required" default:"supported" group:"Storage" help:"OBJ: checksums supported or required."`
}

// DefaultBench returns what the command line starts from.
func DefaultBench() Bench {
	return Bench{
		Backend: "UCX", WorkerType: "nixl", Scheme: "pairwise", Mode: "SG", NumIter: 1000, WarmupIter: 100,
		LargeBlkIterFtr: 16,
		NumThreads:      1, NumInitiatorDev: 1, NumTargetDev: 1, DeviceList: "all", RuntimeType: "ETCD",
		EtcdEndpoints:  "http://localhost:2379",
		BenchmarkGroup: "default", NumFiles: 1, PosixAPIType: "AIO", GDSBatchPoolSize: 32, GDSBatchLimit: 128,
		GDSMTNumThreads: 1,
		PipelineDepth:   1, HF3FSIOPoolSize: 64, GPUNetIODeviceList: "0", ObjScheme: "http", ObjRegion: "eu-central-1",
		ObjChecksum: "supported",
	}
}

// flag is an option of nixlbench and its value: a string, an int64 or a bool.
type flag struct {
	name  string
	value any
}

// orElse returns what a pointer points to, or a default.
func orElse[T any](p *T, preset T) T {
	if p == nil {
		return preset
	}
	return *p
}

// Defaults of nixlbench for options that are not given, in bytes.
const (
	defaultTotal = 8 << 30
	defaultBlock = 4 << 10
	largestBlock = 64 << 20
)

// flags returns all options of nixlbench in the order in which the original
// writes them.
func (b Bench) flags() []flag {
	return []flag{
		{"benchmark_group", b.BenchmarkGroup},
		{"backend", b.Backend},
		{"check_consistency", b.CheckConsistency},
		{"device_list", b.DeviceList},
		{"enable_pt", b.EnablePT},
		{"progress_threads", b.ProgressThreads},
		{"etcd_endpoints", b.EtcdEndpoints},
		{"storage_enable_direct", b.StorageEnableDirect},
		{"filepath", b.Filepath},
		{"enable_vmm", b.EnableVMM},
		{"gds_batch_pool_size", b.GDSBatchPoolSize},
		{"gds_batch_limit", b.GDSBatchLimit},
		{"initiator_seg_type", orElse(b.InitiatorSegType, dram)},
		{"max_batch_size", orElse(b.MaxBatchSize, 1)},
		{"max_block_size", orElse(b.MaxBlockSize, largestBlock)},
		{"mode", b.Mode},
		{"num_files", b.NumFiles},
		{"num_initiator_dev", b.NumInitiatorDev},
		{"num_iter", b.NumIter},
		{"num_target_dev", b.NumTargetDev},
		{"num_threads", b.NumThreads},
		{"op_type", orElse(b.OpType, opWrite)},
		{"posix_api_type", b.PosixAPIType},
		{"runtime_type", b.RuntimeType},
		{"scheme", b.Scheme},
		{"start_batch_size", orElse(b.StartBatchSize, 1)},
		{"start_block_size", orElse(b.StartBlockSize, defaultBlock)},
		{"target_seg_type", orElse(b.TargetSegType, dram)},
		{"total_buffer_size", int64(orElse(b.TotalBufferSize, defaultTotal))},
		{"warmup_iter", b.WarmupIter},
		{"worker_type", b.WorkerType},
		{"gds_mt_num_threads", b.GDSMTNumThreads},
		{"gpunetio_device_list", b.GPUNetIODeviceList},
		{"gpunetio_oob_list", b.GPUNetIOOOBList},
		{"hf3fs_iopool_size", b.HF3FSIOPoolSize},
		{"obj_access_key", b.ObjAccessKey},
		{"obj_secret_key", b.ObjSecretKey},
		{"obj_session_token", b.ObjSessionToken},
		{"obj_bucket_name", b.ObjBucketName},
		{"obj_scheme", b.ObjScheme},
		{"obj_region", b.ObjRegion},
		{"obj_use_virtual_addressing", b.ObjVirtual},
		{"obj_endpoint_override", b.ObjEndpoint},
		{"obj_req_checksum", b.ObjChecksum},
		{"large_blk_iter_ftr", b.LargeBlkIterFtr},
		{"recreate_xfer", b.RecreateXfer},
		{"pipeline_depth", b.PipelineDepth},
		{"prepared_xfer", b.PreparedXfer},
		{"reregister_mem", b.ReregisterMem},
		{"use_hugepages", b.UseHugepages},
		{"randomize_location_mode", b.RandomizeLocation},
		{"randomize_location_mode_seed", b.RandomLocationSeed},
	}
}

// check refuses numbers that nixlbench refuses.
func (b Bench) check() error {
	for _, n := range []struct {
		flag         string
		value, least int64
	}{
		{"num_iter", b.NumIter, 1}, {"warmup_iter", b.WarmupIter, 0}, {"large_blk_iter_ftr", b.LargeBlkIterFtr, 1},
		{"num_threads", b.NumThreads, 1},
		{"num_initiator_dev", b.NumInitiatorDev, 1}, {"num_target_dev", b.NumTargetDev, 1},
		{"progress_threads", b.ProgressThreads, 0},
		{"num_files", b.NumFiles, 1}, {"pipeline_depth", b.PipelineDepth, 1},
		{"randomize_location_mode_seed", b.RandomLocationSeed, 0}, {"gds_batch_pool_size", b.GDSBatchPoolSize, 1},
		{"gds_batch_limit", b.GDSBatchLimit, 1},
		{"gds_mt_num_threads", b.GDSMTNumThreads, 1}, {"hf3fs_iopool_size", b.HF3FSIOPoolSize, 1},
	} {
		if most := int64(1<<31 - 1); n.value < n.least || n.value > most {
			return usage("--%s: wanted %d to %d, got %d", n.flag, n.least, most, n.value)
		}
	}
	if total := orElse(b.TotalBufferSize, 1); total < 1 {
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
	if b.DeviceList == "all" || b.Scheme != "pairwise" || b.WorkerType != "nixl" || n == b.NumInitiatorDev &&
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
	}{{"num_iter", b.NumIter}, {"warmup_iter", b.WarmupIter}} {
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
