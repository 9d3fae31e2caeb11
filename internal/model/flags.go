package model

import "perigee/internal/kit/fault"

// Flags are the options of commands that decide how the bytes of a cache are counted. They mean the same in each of
// them.
type Flags struct {
	KVCacheDType string `name:"kv-cache-dtype" placeholder:"NAME" help:"Precision of the cache: bf16 (the default), fp8, nvfp4, fp8_ds_mla and others; auto for that of the model's file." yaml:"kv_cache_dtype,omitempty"`
	Served       `yaml:",inline"`
}

// Given reports whether any of the options is there.
func (f Flags) Given() bool {
	serving, err := ParseServing(f.Serving)
	return err != nil || serving != Exact || f.KVCacheDType+f.StateDType != "" || f.PageSize != nil
}

// Served are the options that decide how an engine serves the cache.
type Served struct {
	StateDType string `name:"state-dtype" enum:",float32,bfloat16" default:"" placeholder:"NAME" help:"Precision of states: float32 or bfloat16 (default: that of the file, the class or the engine)." yaml:"state_dtype,omitempty"`
	Serving    string `name:"serving" enum:"none,vllm,sglang,trtllm" default:"none" placeholder:"ENGINE" help:"Move what an engine moves: vllm, sglang or trtllm. With none, the default, what the model keeps." yaml:"serving,omitempty"`
	PageSize   *int64 `name:"page-size" type:"tokens" placeholder:"TOKENS" help:"With --serving: tokens of a page (default: the engine's own)." yaml:"page_size,omitempty"`
}

// Copies are the options that decide what decode ranks receive.
type Copies struct {
	KVReplicas Replicas `name:"kv-replicas" enum:"full,split" default:"full" placeholder:"WHAT" help:"What decode ranks that hold the same cache receive: all of it each, as from engines (full), or each a part (split)." yaml:"kv_replicas"`
}

// Check refuses other words than those of [Replicas]; empty is full. Errors are of the kind Usage.
func (r Replicas) Check() error {
	if r == "" || r == ReplicasFull || r == ReplicasSplit {
		return nil
	}
	return fault.New(fault.Usage, "--kv-replicas: wanted %s or %s, got %q", ReplicasFull, ReplicasSplit, r)
}

// maxPage bounds the tokens of a page. A larger one is a typing error.
const maxPage = 1 << 30

// Options are those of a cache but for the precision. ranks of tensor parallelism hold a request together; see
// [Options]. Errors are of the kind Usage.
func (f *Served) Options(ranks int64) (Options, error) {
	o := Options{StateDType: f.StateDType, Ranks: ranks}
	var err error
	if o.Serving, err = ParseServing(f.Serving); err != nil {
		return o, fault.New(fault.Usage, "--serving: %w", err)
	}
	if f.PageSize == nil {
		return o, nil
	}
	if o.Page = *f.PageSize; o.Page < 1 || o.Page > maxPage {
		return o, fault.New(fault.Usage, "--page-size: wanted 1 to %d tokens, got %d", maxPage, o.Page)
	}
	return o, nil
}

// CheckPages refuses pages that no engine moves, where they have no other meaning. Errors are of the kind Usage.
func (f *Served) CheckPages() error {
	if serving, err := ParseServing(f.Serving); err != nil || serving != Exact || f.PageSize == nil {
		return err
	}
	return fault.New(fault.Usage, "--page-size without effect: there is no --serving by an engine")
}

// Cache is the cache of a model as the options say.
func (f *Flags) Cache(m *Model, ranks int64) (*Cache, error) {
	o, err := f.Options(ranks)
	if err != nil {
		return nil, err
	}
	c, err := m.CacheIn(f.KVCacheDType, o)
	if fault.KindOf(err) == fault.Usage {
		err = fault.Wrap(err, "--kv-cache-dtype")
	}
	return c, err
}
